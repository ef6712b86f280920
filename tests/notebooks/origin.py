"""Where the stored outputs of a notebook come from: one run of all its cells, under the versions of the lock.

`seal` leaves a digest of code and outputs in the notebook's metadata. A cell that was changed, or run again by hand,
no longer fits it.
"""

import hashlib
import json
import re
from pathlib import Path

import nbformat

from tests.notebooks.lint import ROOT

KERNEL = {"kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
          "language_info": {"name": "python"}}


def seal(book: nbformat.NotebookNode) -> None:
    """Give a notebook the metadata of a fresh run, and nothing that an editor left there."""
    book.metadata = nbformat.from_dict({**KERNEL, "agentkit": {"executed": digest(book)}})


def digest(book: nbformat.NotebookNode) -> str:
    """A SHA-256 over code and outputs. Tags, prose and ids of widgets do not count."""
    told = []
    for cell in book.cells:
        if cell.cell_type == "code":
            outputs = [{"text": output.get("text"), "data": {kind: value for kind, value in output.get("data", {}).items()
                                                             if "widget-view" not in kind},
                        "error": [output.get("ename"), output.get("evalue")]} for output in cell.outputs]
            told.append([cell.source, outputs])
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def origin_problems(path: Path, lock: Path = ROOT / "requirements.lock") -> list[str]:
    """One line for each sign that the outputs were not stored by one `make lessons` under this lock."""
    book = nbformat.read(path, as_version=4)
    found = []
    counts = [cell.execution_count for cell in book.cells if cell.cell_type == "code" and cell.source.strip()]
    if counts != list(range(1, len(counts) + 1)):
        found.append(f"executed as {counts}, not once from the top")
    stored = book.metadata.get("agentkit", {}).get("executed")
    if stored is None:
        found.append("not executed by make lessons")
    elif stored != digest(book):
        found.append("code or outputs were changed since make lessons")
    locked = dict(re.findall(r"^([\w.-]+)==(\S+)", lock.read_text(encoding="utf-8"), re.MULTILINE))
    found += [f"its outputs come from {name} {version}, the lock has {locked[name]}"
              for name, version in _versions(book) if name in locked and locked[name] != version]
    return found


def _versions(book: nbformat.NotebookNode) -> list[tuple[str, str]]:
    """The pairs of the versions() line: the output of the first code cell that calls it."""
    for cell in book.cells:
        if cell.cell_type == "code" and "versions()" in cell.source:
            return [pair for output in cell.outputs for pair in
                    re.findall(r"([\w.-]+) (\d[\w.]*)", output.get("data", {}).get("text/plain", ""))]
    return []
