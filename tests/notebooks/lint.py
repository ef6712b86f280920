"""What every lesson must keep to, so that nbval really compares it and a learner can read it."""

import json
import re
from pathlib import Path

MAX_CELLS = 34
MAX_LINES = 18
OF_ONE_MACHINE = re.compile(r"(/root/|/home/|/Users/|/tmp/)")
# A call that makes a live model speak. A cell that shows none of its words says so with the tag `stable-output`.
ASKS_A_MODEL = re.compile(r"\b(ask|a?invoke|a?stream|generate)\(")
LOADS_A_MODEL = re.compile(r"\bload_model\(")
INSTALLS = re.compile(r"^\s*[!%]\s*(pip|conda|uv|apt)", re.MULTILINE)


def problems(path: Path) -> list[str]:
    """One line for each rule the notebook breaks, with the cell's number (from 0); empty when it is in order."""
    try:
        book = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        return [f"not a notebook: {error}"]
    cells = book.get("cells", [])
    found = []
    kernel = book.get("metadata", {}).get("kernelspec", {}).get("name")
    if kernel != "python3":
        found.append(f"kernel is {kernel!r}, not 'python3': a reader gets a dialog first")
    if len(cells) > MAX_CELLS:
        found.append(f"{len(cells)} cells, more than {MAX_CELLS}: it holds two lessons")
    live = any(LOADS_A_MODEL.search(_source(cell)) for cell in cells)
    last = 0
    for number, cell in enumerate(cells):
        if cell.get("cell_type") != "code" or not _source(cell).strip():
            continue
        found += [f"cell {number}: {problem}" for problem in _cell_problems(cell, last, live)]
        last = cell.get("execution_count") or last
    return found


def _cell_problems(cell: dict, last: int, live: bool) -> list[str]:
    source, outputs = _source(cell), cell.get("outputs", [])
    tags = cell.get("metadata", {}).get("tags", [])
    count = cell.get("execution_count")
    found = []
    if count is None:
        found.append("never executed, so nothing compares its output")
    elif count <= last:
        found.append(f"executed out of order ({count} after {last}): run all cells from the top")
    if (lines := len(source.splitlines())) > MAX_LINES:
        found.append(f"{lines} lines of code, more than {MAX_LINES}")
    if INSTALLS.search(source):
        found.append("installs something: lessons use what the lock installed")
    if path := OF_ONE_MACHINE.search(_shown(outputs)):
        found.append(f"shows a path of one machine ({path[0]})")
    if any(output.get("output_type") == "error" for output in outputs) and "raises-exception" not in tags:
        found.append("ended in an error without the tag raises-exception")
    if live and outputs and ASKS_A_MODEL.search(source) and not {"nbval-ignore-output", "stable-output"} & set(tags):
        found.append("shows a live model's words without the tag nbval-ignore-output (or stable-output if it does not)")
    return found


def _source(cell: dict) -> str:
    return "".join(cell.get("source", ""))


def _shown(outputs: list[dict]) -> str:
    """The text of the outputs, without pictures, whose base64 may spell anything."""
    kept = []
    for output in outputs:
        data = {kind: value for kind, value in output.get("data", {}).items() if not kind.startswith("image/")}
        kept.append({**output, "data": data})
    return json.dumps(kept, ensure_ascii=False)
