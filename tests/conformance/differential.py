"""Sixty-four cells of plain Rust (cells.py) in this kernel, against what stock evcxr_jupyter 0.22 made of them.

    python differential.py                    ours against the recorded answers (stock.json)
    python differential.py --stock PROGRAM    also: does the stock kernel PROGRAM still answer so?
    python differential.py --record PROGRAM   record anew

After each cell: what was printed, what was shown, whether it failed, and which variables are bound with
which types. What it can catch: a cell that our kernel reads, compiles or shows differently. Not compared:
error texts, which ours points at the cell's lines, and the words of a panic's backtrace.
"""

import argparse
import json
import os
import pathlib
import queue
import subprocess
import sys
import tempfile

import jupyter_client
from cells import CELLS, FAILS_IN_OURS

GOLDEN = pathlib.Path(__file__).with_name("stock.json")
RECORD = "python tests/conformance/differential.py --record PROGRAM"


class Kernel:
    def __init__(self, name, late=0.0):
        """`late`: seconds to wait for output after a cell; stock sends some of it after the cell's end."""
        self.late = late
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
        while self.late:
            try:
                hook(self.client.get_iopub_msg(timeout=self.late))
            except queue.Empty:
                break
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

    def answers(self):
        """What the kernel makes of each cell, and what is bound after it."""
        found = []
        for code in CELLS:
            answer = self.run(code)
            found.append({"code": code, **answer, "variables": self.variables()})
        self.close()
        return found


def stock_answers(program):
    with tempfile.TemporaryDirectory() as folder:
        spec = pathlib.Path(folder) / "kernels" / "stock"
        spec.mkdir(parents=True)
        argv = [program, "--control_file", "{connection_file}"]
        (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "stock", "language": "rust"}))
        os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("JUPYTER_PATH")]))
        return Kernel("stock", late=0.3).answers()


def record(program):
    rustc = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    made = {"kernel": "evcxr_jupyter 0.22.0", "rustc": rustc, "command": RECORD, "cells": stock_answers(program)}
    GOLDEN.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")


def agrees(mine, other, ours):
    """Whether a cell came to the same; `ours` when one side is our kernel."""
    if mine["variables"] != other["variables"]:
        return False
    if ours and other["shown"] == ["()"]:
        # The value of a statement is nothing, which our kernel does not show.
        other = {**other, "shown": []}
    if ours and mine["code"] in FAILS_IN_OURS:
        return not mine["ok"] and other["ok"]
    return mine["ok"] == other["ok"] and (mine == other or (ours and not mine["ok"]))


def compare(what, mine, other, ours):
    """Prints what differs; returns how many cells do."""
    failed = 0
    for number, (one, two) in enumerate(zip(mine, other, strict=True), 1):
        if not agrees(one, two, ours):
            failed += 1
            print(f"test {what}, cell {number} ... FAILED\n  here:     {one}\n  recorded: {two}")
    return failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--stock", metavar="PROGRAM")
    parser.add_argument("--record", metavar="PROGRAM")
    asked = parser.parse_args()
    if asked.record:
        record(asked.record)
    golden = json.loads(GOLDEN.read_text())["cells"]
    if [cell["code"] for cell in golden] != CELLS:
        print(f"test the recorded cells are those of cells.py ... FAILED\n  record them: {RECORD}")
        print("test result: FAILED. 0 passed; 1 failed; 0 ignored")
        return 1
    # A first cell that waits says so to a person.
    os.environ["HALOBOOK_NONINTERACTIVE"] = "1"
    failed, total = compare("ours", Kernel("halobook").answers(), golden, True), len(CELLS)
    if asked.stock:
        failed += compare("stock", stock_answers(asked.stock), golden, False)
        total += len(CELLS)
    word = "FAILED" if failed else "ok"
    print(f"test result: {word}. {total - failed} passed; {failed} failed; 0 ignored")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
