"""The notebook `00-quickstart` in JupyterLab 4 or Notebook 7, in a real browser.

    python lab.py NOTEBOOK OUT_FOLDER [--front lab|notebook] [--browser PROGRAM]

Opens the notebook, runs it from the menu's command, watches the card of a long run move, presses Jupyter's
interrupt button, and looks at what a reader sees. Into OUT_FOLDER: screenshots. What it can catch: a card
that the page does not redraw, a button that the kernel does not hear, outputs that the page cannot show.
Prints a skip where there is no Chromium, or no such front end.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import re
import secrets
import shutil
import subprocess
import sys
import tempfile

import nbformat

from cdp import Browser, find, until

LONG = """%%gnn -n 2 -s halo -o long
data = "sbm:nodes=4000,classes=8,feat=64,degree=16"
model = "gcn"; layers = 2; hidden = 32
epochs = 100000; lr = 0.01; dropout = 0.5"""
AFTER = "(four.epochs().height(), long.epochs().height() > 0, long.status())"


# Module, the setting that shows its application to scripts, and where a notebook is opened.
FRONTS = {
    "lab": ("jupyterlab", "LabApp", "lab/tree"),
    "notebook": ("notebook", "JupyterNotebookApp", "notebooks"),
}


class Lab:
    """A Jupyter server of its own, with a folder, a run store and settings that nobody else uses."""

    def __init__(self, notebook, folder, front):
        self.front = FRONTS[front]
        self.folder, self.token = pathlib.Path(folder), secrets.token_hex(16)
        (self.folder / "work").mkdir()
        source = nbformat.read(notebook, as_version=4)
        self.cells = len(source.cells)
        for code in (LONG, AFTER):
            source.cells.append(nbformat.v4.new_code_cell(code))
        nbformat.write(source, self.folder / "work" / notebook.name)
        # No question about news over the page.
        quiet = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}
        (self.folder / "config" / "labconfig").mkdir(parents=True)
        (self.folder / "config" / "labconfig" / "page_config.json").write_text(json.dumps(quiet))
        env = os.environ | {
            "HALOBOOK_HOME": str(self.folder / "home"),
            "JUPYTER_RUNTIME_DIR": str(self.folder / "runtime"),
            "JUPYTER_CONFIG_DIR": str(self.folder / "config"),
            "JUPYTER_DATA_DIR": str(self.folder / "data"),
            "JUPYTERLAB_WORKSPACES_DIR": str(self.folder / "workspaces"),
        }
        module, app, _ = self.front
        self.log = open(self.folder / "lab.log", "w")
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, "--no-browser", "--allow-root", "--ServerApp.port=0",
             f"--IdentityProvider.token={self.token}", f"--ServerApp.root_dir={self.folder / 'work'}",
             f"--{app}.expose_app_in_browser=True"],
            env=env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.server = until("the server", self._server, 120)

    def _server(self):
        assert self.process.poll() is None, (self.folder / "lab.log").read_text()
        for file in (self.folder / "runtime").glob("jpserver-*.json"):
            try:
                return json.loads(file.read_text())
            except ValueError:
                pass  # being written
        return None

    def address(self, name):
        return f"{self.server['url']}{self.front[2]}/{name}?token={self.token}&reset"

    def close(self):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()


PANEL = "[...jupyterapp.shell.widgets('main')][0]"
NOTEBOOK = f"{PANEL}.content"


class Page:
    """What a reader sees of the notebook, and does."""

    def __init__(self, browser, lab, name):
        self.browser = browser
        browser.open(lab.address(name))
        until("the notebook's page", lambda: browser.script("!!(window.jupyterapp && document.querySelector('.jp-NotebookPanel .jp-Cell'))"), 120)
        status = f"{PANEL}?.sessionContext?.session?.kernel?.status"
        until("an idle kernel", lambda: browser.script(status) == "idle", 120)
        browser.script(f"jupyterapp.shell.activateById({PANEL}.id)")
        browser.click(".jp-Notebook .jp-Cell")
        # The folder's list takes a third of the page, and questions cover it.
        if lab.front is FRONTS["lab"]:
            browser.script("jupyterapp.commands.execute('application:toggle-left-area')")

    def run_all(self):
        self.browser.script("void jupyterapp.commands.execute('notebook:run-all-cells')")

    def run(self, number):
        self.browser.script(f"{NOTEBOOK}.activeCellIndex = {number}; void jupyterapp.commands.execute('notebook:run-cell')")

    def outputs(self, number):
        return self.browser.script(f"{NOTEBOOK}.model.sharedModel.cells[{number}].toJSON().outputs") or []

    def prompt(self, number):
        return self.browser.script(f"{NOTEBOOK}.model.sharedModel.cells[{number}].execution_count")

    def seen(self, number):
        """The words of a cell's output as the page draws them."""
        self.show(number)
        return self.browser.script(f"{NOTEBOOK}.widgets[{number}].node.querySelector('.jp-OutputArea')?.innerText || ''")

    def drawn(self, number):
        """The markup of a cell's output as the page draws it."""
        self.show(number)
        return self.browser.script(f"{NOTEBOOK}.widgets[{number}].node.querySelector('.jp-OutputArea')?.innerHTML || ''")

    def show(self, number, where="center"):
        self.browser.script(f"{NOTEBOOK}.activeCellIndex = {number}; {NOTEBOOK}.scrollToItem({number}, '{where}').catch(() => 0)")


def watch(page, lab, out, front):
    """The steps; raises AssertionError where one fails."""
    long, after = lab.cells, lab.cells + 1
    page.run_all()
    until("the long run's cell begins", lambda: page.outputs(long), 900)
    failed = [n for n in range(lab.cells) if any(o["output_type"] == "error" for o in page.outputs(n) or [])]
    assert not failed, f"cells {failed} failed"
    print("test the quickstart runs without an error ... ok", flush=True)
    looks = []

    def moved():
        look = re.search(r"epoch (\d+)/", page.seen(long))
        if look and int(look[1]) not in looks:
            looks.append(int(look[1]))
        return len(looks) >= 4

    until("a card that moves", moved, 60)
    assert looks == sorted(looks), looks
    said = page.seen(long)
    assert all(word in said for word in ("exposed transfer", "rank 0", "rank 1", "heard")), said
    page.browser.screenshot(out / f"{front}-live.png")
    print(f"test the card goes on with the run (epochs {looks}) and has a lane a rank ... ok", flush=True)
    page.browser.click('.jp-NotebookPanel-toolbar [data-command="notebook:interrupt-kernel"]')
    until("HaloInterrupted in the cell", lambda: "HaloInterrupted" in page.seen(long), 30)
    page.browser.screenshot(out / f"{front}-interrupted.png")
    print("test the interrupt button ends the run with HaloInterrupted ... ok", flush=True)
    page.run(after)
    until("the cell after it", lambda: page.outputs(after), 60)
    said = page.seen(after)
    assert '(40, true, "interrupted")' in said, said
    print("test variables of before and the frames so far are there ... ok", flush=True)
    number = long - 11
    page.show(number, "start")
    until("the figure", lambda: "<svg" in page.drawn(number) or "<img" in page.drawn(number), 30)
    page.browser.screenshot(out / f"{front}-stack.png")
    print("test figures are drawn ... ok", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("notebook", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--browser", default=os.environ.get("HALOBOOK_BROWSER"))
    parser.add_argument("--front", choices=FRONTS, default="lab")
    asked = parser.parse_args()
    program = find(asked.browser)
    why = None
    if program is None:
        why = "there is no Chromium on this machine; install one, or name it in HALOBOOK_BROWSER"
    elif importlib.util.find_spec(FRONTS[asked.front][0]) is None:
        why = f"this Python has no {FRONTS[asked.front][0]}"
    if why:
        print(f"skip: browser: {why}")
        print("test result: ok. 0 passed; 0 failed; 5 ignored")
        return 0
    asked.out.mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="halobook-browser-"))
    lab = browser = None
    try:
        lab = Lab(asked.notebook, folder, asked.front)
        browser = Browser(program, folder / "browser")
        watch(Page(browser, lab, asked.notebook.name), lab, asked.out, asked.front)
    except AssertionError as error:
        if browser is not None:
            browser.screenshot(asked.out / f"{asked.front}-failed.png")
        print(f"test browser ... FAILED\n  {error}\ntest result: FAILED. 0 passed; 1 failed; 0 ignored")
        return 1
    finally:
        for one in (browser, lab):
            if one is not None:
                one.close()
        shutil.rmtree(folder, ignore_errors=True)
    print("test result: ok. 5 passed; 0 failed; 0 ignored")
    return 0


if __name__ == "__main__":
    sys.exit(main())
