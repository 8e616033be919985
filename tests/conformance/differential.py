"""Sixty cells of plain Rust in this kernel and in stock evcxr_jupyter 0.22, compared.

    python differential.py EVCXR_JUPYTER

EVCXR_JUPYTER is the stock kernel's program. After each cell: what was printed, what was shown, whether it
failed, and which variables are bound with which types. What it can catch: a cell that our kernel reads,
compiles or shows differently. Not compared: error texts, which ours points at the cell's lines, and the
words of a panic's backtrace.
"""

import json
import os
import pathlib
import sys
import tempfile

import jupyter_client
from jupyter_client.kernelspec import KernelSpecManager

CELLS = [
    "1 + 2",
    "let x = 5;",
    "x * 2",
    "let mut v = vec![1, 2, 3]; v.push(x); v",
    "v.len()",
    'println!("hello"); eprintln!("there");',
    'let name = String::from("Ada"); name.clone()',
    "name.to_uppercase()",
    "fn double(n: i32) -> i32 { n * 2 }",
    "double(x)",
    "struct Point { x: f64, y: f64 }",
    "let p = Point { x: 1.0, y: 2.0 };",
    "p.x + p.y",
    "#[derive(Debug, Clone, PartialEq)] enum Shape { Circle(f64), Square(f64) }",
    "let s = Shape::Circle(2.0); s.clone()",
    "match s { Shape::Circle(r) => r * r, Shape::Square(a) => a }",
    "use std::collections::HashMap;",
    'let mut m: HashMap<String, i32> = HashMap::new(); m.insert("a".into(), 1);',
    'm.get("a").copied()',
    "for i in 0..3 { println!(\"{i}\"); }",
    "let squares: Vec<i32> = (1..=5).map(|n| n * n).collect(); squares",
    "squares.iter().sum::<i32>()",
    "let t = (1, 'c', \"s\"); t",
    "let o: Option<i32> = None; o",
    "Some(3).map(|n| n + 1)",
    "let r: Result<i32, String> = Err(\"no\".to_string()); r",
    "undefined_name",
    "x",
    "let bad: i32 = \"text\";",
    "x + 1",
    "let y = 7; let z = y + x; z",
    "{ let inner = 3; inner * 2 }",
    "if x > 3 { \"big\" } else { \"small\" }",
    "while false {}",
    "const LIMIT: usize = 10;",
    "LIMIT + 1",
    "static GREETING: &str = \"hi\";",
    "GREETING.len()",
    "trait Area { fn area(&self) -> f64; }",
    "impl Area for Point { fn area(&self) -> f64 { self.x * self.y } }",
    "p.area()",
    "macro_rules! twice { ($e:expr) => { $e * 2 } }",
    "twice!(21)",
    "mod inner { pub fn seven() -> i32 { 7 } }",
    "inner::seven()",
    "let text = \"a,b,c\"; text.split(',').count()",
    "i32::from_str_radix(\"ff\", 16)",
    "\"12\".parse::<i32>()?",
    "\"x\".parse::<i32>()?",
    "x",
    "let a = [1u8; 4]; a",
    "a.iter().map(|b| *b as u32).sum::<u32>()",
    "std::mem::size_of::<u64>()",
    "let closure_sum: i32 = [1, 2, 3].iter().map(|n| n * x).sum(); closure_sum",
    "format!(\"{:>5}|{:<5}|{:^5}\", 1, 2, 3)",
    "panic!(\"on purpose\")",
    "x",
    "let f = 1.0f64 / 3.0; f",
    "u8::MAX.checked_add(1)",
    "x.pow(2) + v.iter().sum::<i32>()",
]

# Where ours shall differ: stock prints the error's words and reports success, so that Run All goes on.
FAILS_IN_OURS = {'"x".parse::<i32>()?'}


class Kernel:
    def __init__(self, name):
        self.manager = jupyter_client.KernelManager(kernel_name=name)
        self.manager.start_kernel()
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=300)

    def run(self, code):
        printed, shown, failed = {"stdout": "", "stderr": ""}, [], []

        def hook(message):
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                printed[content["name"]] += content["text"]
            elif kind in ("execute_result", "display_data"):
                shown.append(content["data"].get("text/plain", "").strip())
            elif kind == "error":
                failed.append(content["ename"])

        reply = self.client.execute_interactive(code, timeout=300, output_hook=hook, allow_stdin=False)
        ok = reply["content"]["status"] == "ok" and not failed
        if "panicked at" in printed["stderr"]:
            # Backtraces name places of each kernel's own; a panic is a failure in ours.
            printed["stderr"], ok = "a panic", False
        return {"printed": printed, "shown": [text for text in shown if text], "ok": ok}

    def variables(self):
        rows = self.run(":vars")["shown"]
        return sorted(" ".join(line.split()) for text in rows for line in text.splitlines() if line.strip())

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=False)


def main(stock):
    with tempfile.TemporaryDirectory() as folder:
        spec = pathlib.Path(folder) / "kernels" / "stock"
        spec.mkdir(parents=True)
        argv = [stock, "--control_file", "{connection_file}"]
        (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "stock", "language": "rust"}))
        os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("JUPYTER_PATH")]))
        assert "stock" in KernelSpecManager().find_kernel_specs()
        ours, theirs = Kernel("halobook"), Kernel("stock")
        wrong = []
        for number, code in enumerate(CELLS, 1):
            mine, other = ours.run(code), theirs.run(code)
            if code in FAILS_IN_OURS:
                same = not mine["ok"] and other["ok"]
            else:
                same = mine["ok"] == other["ok"] and (not mine["ok"] or mine == other)
            if not same:
                wrong.append((number, code, mine, other))
            mine, other = ours.variables(), theirs.variables()
            if mine != other:
                wrong.append((number, ":vars", mine, other))
        ours.close()
        theirs.close()
    for number, code, mine, other in wrong:
        print(f"test cell {number} ... FAILED\n  {code}\n  ours:   {mine}\n  theirs: {other}")
    failed = len({number for number, *_ in wrong})
    word = "FAILED" if wrong else "ok"
    print(f"test result: {word}. {len(CELLS) - failed} passed; {failed} failed; 0 ignored")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
