"""Executes one notebook from clean, and writes what a reader wants from it.

    python notebook.py SOURCE OUT_FOLDER SECONDS_PER_CELL

Into OUT_FOLDER: the executed notebook, its HTML, and every SVG that a cell showed as
plots/NAME-cell-K.svg. Also after a cell that failed, so that its output can be looked at.
"""

import pathlib
import sys
import time

import nbclient
import nbconvert
import nbformat


def main(source: pathlib.Path, out: pathlib.Path, limit: int) -> int:
    notebook = nbformat.read(source, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    out.mkdir(parents=True, exist_ok=True)
    (out / "plots").mkdir(exist_ok=True)

    began: dict[int, float] = {}

    def starts(cell, cell_index):
        began[cell_index] = time.monotonic()
        first = next((line for line in cell.source.splitlines() if line.strip()), "")
        print(f"cell {cell_index + 1}/{len(notebook.cells)}: {first[:70]}", flush=True)

    def ends(cell, cell_index, execute_reply=None):
        took = time.monotonic() - began.get(cell_index, time.monotonic())
        print(f"cell {cell_index + 1} took {took:.2f} s", flush=True)

    client = nbclient.NotebookClient(
        notebook,
        timeout=limit,
        startup_timeout=120,
        kernel_name="halobook",
        resources={"metadata": {"path": str(source.parent)}},
        on_cell_execute=starts,
        on_cell_executed=ends,
    )
    wrong = None
    try:
        client.execute()
    except Exception as error:  # reported below, after the partial notebook is on disk
        wrong = error
    nbformat.write(notebook, out / source.name)
    html, _ = nbconvert.HTMLExporter().from_notebook_node(notebook)
    (out / f"{source.stem}.html").write_text(html, encoding="utf-8")
    for old in (out / "plots").glob(f"{source.stem}-cell-*.svg"):
        old.unlink()
    for number, cell in enumerate(notebook.cells, 1):
        shown = [output.get("data", {}).get("image/svg+xml") for output in cell.get("outputs", [])]
        for which, svg in enumerate((svg for svg in shown if svg), 1):
            tail = "" if which == 1 else f"-{which}"
            (out / "plots" / f"{source.stem}-cell-{number}{tail}.svg").write_text(svg, encoding="utf-8")
    if wrong is None:
        return 0
    print(wrong, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]), int(sys.argv[3])))
