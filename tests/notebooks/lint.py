"""What every notebook must keep to, so that nbval really compares it and a learner can read it.

`problems(path)` looks at one notebook, cell by cell. What makes it a lesson is in grammar.py.
"""

import ast
import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAX_CELLS = 34
MAX_LINES = 18
IGNORED = "nbval-ignore-output"
# Another tag is a slip of the pen, and a slip here means that nothing is compared or that an exercise is missed.
TAGS = {IGNORED, "stable-output", "exercise", "raises-exception"}
# A call that makes a live model speak. A cell that shows none of its words says so with the tag `stable-output`.
ASKS_A_MODEL = re.compile(r"\b(ask|a?invoke|a?stream|generate)\(")
LOADS_A_MODEL = re.compile(r"\bload_model\(|\bWorkbench\(\s*(model\s*=\s*)?[\"']")

# What code cells leave alone: (pattern, why).
FORBIDDEN = [(re.compile(pattern, re.MULTILINE), why) for pattern, why in (
    (r"^\s*[!%]+\s*(pip|conda|uv|apt)|-m\s+pip\b|\bpip\s+install", "installs something: lessons use what the lock installed"),
    (r"https?://(?!127\.0\.0\.1|localhost|([\w-]+\.)*example\.(com|org|net))", "names an address on the network"),
    (r"\burlopen\(|\burllib\.request\b|\b(import|from)\s+(requests|httpx2?|aiohttp|socket)\b|\b(requests|httpx2?)\.\w+\(",
     "uses the network"),
    (r"^\s*[!%].*\b(curl|wget|git)\b", "uses the network"),
    (r"\bdraw_mermaid_png\(", "has a web service draw it: use agentkit.lab.draw"),
    (r"\b\w*(API_KEY|api_key)\b|\bgetpass\b", "speaks of a key: lessons need none"),
    (r"\bNBVAL_\w+|PYTEST_VALIDATE_IGNORE_OUTPUT", "steers nbval by a comment: use a tag, which lint sees"),
    (r"\binput\(", "waits for the keyboard, which nobody answers in a test"),
    (r"\bclear_output\b|\bdisplay_id\b|\bupdate_display\b|\bOutput\(|^\s*with\s+out\w*\s*:|\binteract(ive)?\(|@interact",
     "draws in a way nbval cannot follow (clear_output, display_id, Output, interact)"),
    (r";\s*\Z", "ends in a semicolon, which hides the value here and not in nbval: assign it to _"),
    (r"set_matplotlib_formats|InlineBackend\.figure_formats?", "sets the picture format, which must be the same on every rerun"),
)]
# In outputs: paths of the machine that made them, and kinds that differ from run to run.
OF_ONE_MACHINE = re.compile(r"(?<![\w./<])/(root|home|Users|tmp|var|private|opt|mnt|srv|usr)/|\b[A-Z]:\\\\|File ~/|" + re.escape(f"{ROOT}/"))
SECRET = re.compile(r"\b(sk-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{20,})|[?&]token=\w{8}")
UNSTABLE_KINDS = {"image/svg+xml", "image/jpeg", "application/pdf"}


def notebooks() -> list[Path]:
    """Every lesson and solution of the project, in order."""
    return [path for path in sorted((ROOT / "notebooks").rglob("*.ipynb")) if ".ipynb_checkpoints" not in path.parts]


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
    live = any(LOADS_A_MODEL.search(source(cell)) for cell in cells if cell.get("cell_type") == "code")
    last = 0
    for number, cell in enumerate(cells):
        if cell.get("cell_type") != "code" or not source(cell).strip():
            continue
        found += [f"cell {number}: {problem}" for problem in _cell_problems(cell, last, live)]
        if IGNORED in tags(cell) and not _compared_later(cell, cells[number + 1:]):
            found.append(f"cell {number}: its output is ignored and no later cell that is compared shows what must hold of it")
        last = cell.get("execution_count") or last
    return found


def source(cell: dict) -> str:
    """The text of a cell, which the file may hold as one string or as lines."""
    return "".join(cell.get("source", ""))


def tags(cell: dict) -> set[str]:
    """The tags of a cell."""
    return set(cell.get("metadata", {}).get("tags", []))


def plain(cell: dict) -> list[str]:
    """What the outputs of a cell say as plain text, one entry an output."""
    outputs = cell.get("outputs", [])
    return ["".join(output.get("data", {}).get("text/plain", output.get("text", ""))) for output in outputs]


def _cell_problems(cell: dict, last: int, live: bool) -> list[str]:
    code, outputs, marks = source(cell), cell.get("outputs", []), tags(cell)
    count = cell.get("execution_count")
    found = []
    if count is None:
        found.append("never executed, so nothing compares its output")
    elif count <= last:
        found.append(f"executed out of order ({count} after {last}): run all cells from the top")
    if (lines := len(code.splitlines())) > MAX_LINES:
        found.append(f"{lines} lines of code, more than {MAX_LINES}")
    found += [f"{why} ({match[0].strip()!r})" for pattern, why in FORBIDDEN if (match := pattern.search(code))]
    if unknown := marks - TAGS:
        found.append(f"tag {', '.join(sorted(unknown))} means nothing here; known are {', '.join(sorted(TAGS))}")
    shown = _shown(outputs)
    if path := OF_ONE_MACHINE.search(shown):
        found.append(f"shows a path of one machine ({path[0]})")
    if secret := SECRET.search(shown + code):
        found.append(f"shows what looks like a key ({secret[0][:6]}...)")
    if kinds := UNSTABLE_KINDS & {kind for output in outputs for kind in output.get("data", {})}:
        found.append(f"stores {', '.join(sorted(kinds))}, which differs from run to run: figures are stored as PNG")
    if any(output.get("output_type") == "error" for output in outputs) and "raises-exception" not in marks:
        found.append("ended in an error without the tag raises-exception")
    if live and outputs and ASKS_A_MODEL.search(code) and not {IGNORED, "stable-output"} & marks:
        found.append("shows a live model's words without the tag nbval-ignore-output (or stable-output if it does not)")
    return found


def _compared_later(cell: dict, later: list[dict]) -> bool:
    """Whether a later cell whose output is compared reads a name this cell binds; any will do if it binds none."""
    compared = [after for after in later if after.get("cell_type") == "code" and IGNORED not in tags(after)]
    bound, _ = _names(source(cell))
    return any(not bound or bound & _names(source(after))[1] for after in compared)


def _names(code: str) -> tuple[set[str], set[str]]:
    """The names that code binds at any depth, and those it reads; none when it is not plain Python."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return set(), set()
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    return bound, {node.id for node in names if isinstance(node.ctx, ast.Load)}


def _shown(outputs: list[dict]) -> str:
    """The text of the outputs, without pictures, whose base64 may spell anything."""
    kept = []
    for output in outputs:
        data = {kind: value for kind, value in output.get("data", {}).items() if not kind.startswith("image/")}
        kept.append({**output, "data": data})
    return json.dumps(kept, ensure_ascii=False)
