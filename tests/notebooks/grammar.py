"""What makes a notebook a lesson, and what makes another one its solution. See guide/writing-lessons.md."""

import json
import re
from pathlib import Path

from tests.notebooks.lint import ASKS_A_MODEL, LOADS_A_MODEL, plain, source, tags

RIGHT, NOT_YET = "Right:", "Not yet:"


def lesson_problems(path: Path) -> list[str]:
    """One line for each part of the grammar that the lesson lacks."""
    cells = _cells(path)
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    prose = "\n\n".join(source(cell) for cell in cells if cell["cell_type"] == "markdown")
    found = []
    title = source(cells[0]) if cells and cells[0]["cell_type"] == "markdown" else ""
    if not title.startswith(f"# {path.name[:2]} · "):
        found.append(f"the first cell is not a title '# {path.name[:2]} · ...'")
    found += [f"the title cell has no **{word}.**" for word in ("Goal", "Time") if f"**{word}.**" not in title]
    if not code or "versions()" not in source(code[0]):
        found.append("the first code cell does not end in versions()")
    if not _predicts(code):
        found.append("no prediction: predict(...) in a cell, .reveal() in a later one")
    found += [f"no heading with {word!r}" for word in ("Break", "Recap")
              if not re.search(rf"^#+ .*\b{word}", prose, re.MULTILINE | re.IGNORECASE)]
    everything = "\n".join(map(source, code))
    if not (LOADS_A_MODEL.search(everything) and ASKS_A_MODEL.search(everything)):
        found.append("no live run: load_model or Workbench, and a question to it")
    checks = _checks(cells)
    if sum(check is not None for check in checks.values()) < 2:
        found.append("fewer than two exercises: cells with the tag `exercise`, each followed by a cell that calls check")
    for number, check in checks.items():
        if check is None:
            found.append(f"cell {number}: an exercise without a check behind it")
        elif not any(text.startswith(NOT_YET) for text in plain(check)):
            found.append(f"cell {number}: before it is solved, its check must say '{NOT_YET} ...'")
    return found


def solution_problems(lesson: Path, solution: Path) -> list[str]:
    """One line for each difference that is none of the solution's business, and for each check that is not Right."""
    theirs, ours = _cells(lesson), _cells(solution)
    if len(theirs) != len(ours):
        return [f"{len(ours)} cells, the lesson has {len(theirs)}"]
    found = []
    for number, (cell, solved) in enumerate(zip(theirs, ours)):
        if cell["cell_type"] != solved["cell_type"] or tags(cell) != tags(solved):
            found.append(f"cell {number}: another kind or other tags than in the lesson")
        elif number == 0:
            continue
        elif "exercise" in tags(cell):
            if source(cell) == source(solved):
                found.append(f"cell {number}: the exercise is not filled in")
        elif source(cell).replace("../../", "../") != source(solved).replace("../../", "../"):
            found.append(f"cell {number}: differs from the lesson without being an exercise")
        if any(text.startswith(NOT_YET) for text in plain(solved)):
            found.append(f"cell {number}: a check says '{NOT_YET} ...' to the solution")
    for number, check in _checks(ours).items():
        if check is not None and not any(text.startswith(RIGHT) for text in plain(check)):
            found.append(f"cell {number}: its check does not say '{RIGHT} ...'")
    return found


def _cells(path: Path) -> list[dict]:
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def _predicts(code: list[dict]) -> bool:
    """Whether a prediction is asked for, and revealed in a later cell."""
    asked = [number for number, cell in enumerate(code) if re.search(r"\bpredict\(", source(cell))]
    return bool(asked) and any(".reveal()" in source(cell) for cell in code[asked[0] + 1:])


def _checks(cells: list[dict]) -> dict[int, dict | None]:
    """For each exercise cell, by number: the next code cell that is no exercise, if it calls the lesson's checks."""
    found = {}
    for number, cell in enumerate(cells):
        if "exercise" not in tags(cell):
            continue
        behind = [after for after in cells[number + 1:] if after["cell_type"] == "code" and "exercise" not in tags(after)]
        found[number] = behind[0] if behind and re.search(r"\bcheck\.\w+\(", source(behind[0])) else None
    return found
