"""Execute lessons in place, so that all stored outputs have one origin: `make lessons`.

Without paths: every lesson and every solution. A notebook is written only if all its cells ran, and the others go on.
What differs from run to run by itself (times of execution, widget ids) is not stored.
"""

import argparse
import os
import re
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from tests.notebooks.lint import notebooks
from tests.notebooks.origin import origin_problems, seal
from tests.notebooks.plugin import OFFLINE

WIDGET = "application/vnd.jupyter.widget-view+json"


class Failed(Exception):
    """A cell failed; the text has its number (from 0, prose counted, as lint counts) and the error in a few lines."""


def execute(path: Path, timeout: float = 120) -> int:
    """Run a notebook in its own folder and write it back; returns the number of code cells. Raises Failed.

    timeout: seconds that one cell may take. The kernel has no network, as in the tests. What it writes past the
    notebook is shown only if it dies (ipykernel warns at each start that it talks over TCP).
    """
    book = nbformat.read(path, as_version=4)
    client = NotebookClient(book, timeout=timeout, kernel_name="python3", store_widget_state=False, coalesce_streams=True,
                            resources={"metadata": {"path": str(path.parent)}})
    # As in the tests, where two notebooks run at once on two cores: sums come out the same only with as many threads.
    environment = {"OPENBLAS_NUM_THREADS": "1", **os.environ}
    with tempfile.TemporaryFile("w+") as said, client.setup_kernel(stderr=said, env=environment):
        client.kc.execute(OFFLINE, silent=True, store_history=False)
        for number, cell in enumerate(book.cells):
            try:
                client.execute_cell(cell, number)
            except CellExecutionError as error:
                raise Failed(f"cell {number}: {_line(error, cell)}") from None
            except CellTimeoutError:
                raise Failed(f"cell {number}: not over after {timeout:g} s") from None
            except DeadKernelError:
                said.seek(0)
                last = [line for line in said.read().splitlines() if line and not line.startswith("[IPKernelApp]")][-5:]
                raise Failed("\n      ".join([f"cell {number}: the kernel died", *last])) from None
    for number, cell in enumerate(book.cells):
        cell["id"] = f"c{number:02d}"
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", []):
            if view := output.get("data", {}).get(WIDGET):
                view["model_id"] = f"{number:032x}"
    seal(book)
    nbformat.validate(book)
    # At once or not at all: an interrupted run leaves no half a lesson.
    whole = path.with_suffix(".ipynb.new")
    nbformat.write(book, whole)
    whole.replace(path)
    return sum(cell.cell_type == "code" for cell in book.cells)


def _line(error: CellExecutionError, cell: nbformat.NotebookNode) -> str:
    """`Name: message (line N: code)`, with the line of the cell if the traceback points into it."""
    told = f"{error.ename}: {error.evalue}".strip()[:500]
    at = re.findall(r"(?:Cell|cell) In\[\d+\], line (\d+)|File <ipython-input.*?line (\d+)", re.sub(r"\x1b\[[\d;]*m", "", error.traceback))
    line = int(at[0][0] or at[0][1]) if at else 0
    lines = cell.source.splitlines()
    return f"{told} (line {line}: {lines[line - 1].strip()})" if 0 < line <= len(lines) else told


def execute_all(paths: list[Path], timeout: float) -> list[Path]:
    """Execute one after another with a line for each; returns those that failed, which stay as they were."""
    failed = []
    for place, path in enumerate(paths, 1):
        print(f"[{place}/{len(paths)}] {_name(path)} ", end="", flush=True)
        began = time.monotonic()
        try:
            cells = execute(path, timeout)
        except Failed as error:
            failed.append(path)
            print(f"FAILED\n      {error}", flush=True)
        else:
            print(f"{cells} code cell{'s' * (cells != 1)}, {time.monotonic() - began:.1f} s", flush=True)
    return failed


def main(arguments: list[str] | None = None) -> int:
    """The command; 0 if all went well, 1 if a notebook failed or does not pass --check, 2 for a bad path."""
    parser = argparse.ArgumentParser(prog="make lessons", description="Execute lessons and solutions anew, each from the top.",
                                     epilog="With make: make lessons ARGS='notebooks/00_start_here.ipynb'")
    parser.add_argument("paths", nargs="*", type=Path, metavar="NOTEBOOK", help="default: all of notebooks/, solutions included")
    parser.add_argument("--timeout", type=float, default=120, metavar="S", help="seconds that one cell may take (default 120)")
    parser.add_argument("--check", action="store_true",
                        help="execute nothing; name those whose stored outputs do not come from one run under the lock")
    chosen = parser.parse_args(arguments)
    paths = [path.resolve() for path in chosen.paths] or notebooks()
    if missing := [str(path) for path in paths if not path.is_file()]:
        parser.error(f"no such notebook: {', '.join(missing)}")
    if chosen.check:
        found = {path: told for path in paths if (told := origin_problems(path))}
        for path, told in found.items():
            print(f"{_name(path)}: {'; '.join(told)}")
        print(f"{len(paths) - len(found)} of {len(paths)} notebooks have outputs of one origin")
        return bool(found)
    if failed := execute_all(paths, chosen.timeout):
        print(f"{len(failed)} of {len(paths)} failed and were left as they were: {', '.join(map(_name, failed))}")
    return bool(failed)


def _name(path: Path) -> str:
    """The path as short as it can be said from here."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


if __name__ == "__main__":
    sys.exit(main())
