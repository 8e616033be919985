"""Times the cell path of a kernel as a notebook sees it; another kernel by turns.

    python bench.py KERNEL AGAINST ROUNDS

The last line of standard output is one JSON object: for each kernel and step its milliseconds. A step is
timed from the request to its reply.
"""

import atexit
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import jupyter_client

# What is timed in both kernels, and how often a round.
PLAIN = [("plain cell: x + 1", "x + 1", 10)]
FRAMES = [
    ("later frame cell: df!", 'let f = df!("a" => [1, 2, 3], "b" => [1.0, 2.0, 3.0]).unwrap(); f', 5),
    ("later frame cell: filter", 'f.clone().lazy().filter(col("a").gt(lit(1))).collect()?', 5),
    ("later frame cell: group-by", 'f.clone().lazy().group_by([col("a")]).agg([col("b").sum()]).collect()?', 5),
]
MAGICS = [
    ("%%sql", "%%sql\nSELECT run_id, ranks FROM runs", 5),
    ("%plot", "%plot r1 curve", 5),
    ("%runs", "%runs", 5),
]
GNN = '%%gnn -n 2 -s halo -o r1\ndata = "karate"; epochs = 1; launch = "threads"'
LIVE = '%%gnn --bg -o live\ndata = "sbm:nodes=2000,classes=4"; epochs = 100000; launch = "threads"'
# What is interrupted, and how long after its beginning.
ENDLESS = [
    ("a plain cell", "halobook::interrupt::sleep(std::time::Duration::from_secs(60));"),
    ("%%gnn", '%%gnn\ndata = "sbm:nodes=2000,classes=4"; epochs = 1000000; launch = "threads"'),
]
UNDER_WAY = 2.0
# How long a standby has had to get warm.
STANDBY = 15.0


class Kernel:
    def __init__(self, name, home):
        self.times = {}
        began = time.monotonic()
        self.manager = jupyter_client.KernelManager(kernel_name=name)
        # Its own words are not ours, and a kernel that is left must not hold our pipes open.
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.manager.start_kernel(env={**os.environ, "HALOBOOK_HOME": home}, **quiet)
        atexit.register(self.manager.shutdown_kernel, now=True)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=600)
        self.note("start to ready", began)

    def note(self, step, began):
        self.times.setdefault(step, []).append(1e3 * (time.monotonic() - began))

    def cell(self, step, code):
        began = time.monotonic()
        reply = self.client.execute_interactive(
            code, timeout=900, output_hook=lambda message: None, allow_stdin=False
        )
        if reply["content"]["status"] != "ok":
            raise RuntimeError(f"{code!r}: {reply['content'].get('evalue')}")
        if step:
            self.note(step, began)

    def ask(self, step, send):
        began = time.monotonic()
        wanted = send()
        while True:
            reply = self.client.get_shell_msg(timeout=60)
            if reply["parent_header"].get("msg_id") == wanted:
                break
        self.note(step, began)

    def interrupt(self, what, code):
        """From the interrupt to its acknowledgement, and to the end of the cell."""
        wanted = self.client.execute(code)
        time.sleep(UNDER_WAY)
        began = time.monotonic()
        self.client.control_channel.send(self.client.session.msg("interrupt_request", {}))
        self.client.get_control_msg(timeout=60)
        self.note(f"interrupt of {what}, acknowledged", began)
        while self.client.get_shell_msg(timeout=60)["parent_header"].get("msg_id") != wanted:
            pass
        self.note(f"interrupt of {what}, the cell's end", began)

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=False)


def steps(kernel, all_of):
    for name, code, times in all_of:
        for _ in range(times):
            kernel.cell(name, code)


def first_row(home, known, found):
    """Waits for the first row of a run that is not known yet."""
    while not found:
        for rows in set(glob.glob(f"{home}/runs/*/rows/*.jsonl")) - known:
            if os.path.getsize(rows) > 0:
                found.append(time.monotonic())
                return
        time.sleep(0.001)


def ours(name):
    with tempfile.TemporaryDirectory() as home:
        kernel = Kernel(name, home)
        kernel.cell("first frame cell, sent at once", FRAMES[0][1])
        kernel.cell(None, "let x = 1;")
        steps(kernel, PLAIN + FRAMES)
        for _ in range(5):
            known, found = set(glob.glob(f"{home}/runs/*/rows/*.jsonl")), []
            watch = threading.Thread(target=first_row, args=(home, known, found), daemon=True)
            watch.start()
            began = time.monotonic()
            kernel.cell("%%gnn of one epoch, to its table", GNN)
            watch.join(timeout=5)
            if found:
                kernel.times.setdefault("%%gnn to its first epoch", []).append(1e3 * (found[0] - began))
            found.append(0)
        steps(kernel, MAGICS)
        kernel.cell(None, LIVE)
        code = "let v: Vec<i32> = Vec::new(); v.le"
        for _ in range(5):
            kernel.ask("completion of a magic, a run live", lambda: kernel.client.complete("%%gn"))
            kernel.ask("completion of Rust, a run live", lambda: kernel.client.complete(code))
            kernel.ask("inspection, a run live", lambda: kernel.client.inspect("%%gnn"))
        kernel.cell(None, "%stop live --now")
        for _ in range(5):
            for what, code in ENDLESS:
                kernel.interrupt(what, code)
        kernel.close()
        standby = Kernel(name, home)
        standby.times.clear()
        time.sleep(STANDBY)
        standby.cell("first frame cell, after a standby has warmed", FRAMES[0][1])
        standby.close()
        return {**kernel.times, **standby.times}


def theirs(name):
    with tempfile.TemporaryDirectory() as home:
        kernel = Kernel(name, home)
        kernel.cell(None, "let x = 1;")
        steps(kernel, PLAIN)
        kernel.close()
        return kernel.times


def main(name, against, rounds):
    kernels = {name: {}}
    if against:
        kernels[against] = {}
    for number in range(rounds):
        for kernel, all_times in kernels.items():
            print(f"round {number + 1} of {rounds}: {kernel}", file=sys.stderr, flush=True)
            times = ours(kernel) if kernel == name else theirs(kernel)
            for step, ms in times.items():
                all_times.setdefault(step, []).extend(ms)
    for kernel, times in kernels.items():
        print(f"{kernel}\n{'step':<46} {'median ms':>10} {'low':>9} {'high':>9} {'times':>6}")
        for step, ms in times.items():
            middle = statistics.median(ms)
            print(f"  {step:<44} {middle:>10.1f} {min(ms):>9.1f} {max(ms):>9.1f} {len(ms):>6}")
    print(json.dumps({"bench": "notebook", "rounds": rounds, "ms": kernels}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
