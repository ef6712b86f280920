"""Berkeley Function Calling Leaderboard (BFCL v4), the single-turn Python categories, with the model as a chat model.

Questions and right answers come from the PyPI package `bfcl-eval`, of which only the data files are read: its code
needs some forty packages. Function documents are shown to the model as the benchmark shows them.
"""

import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentkit.evals.bfcl_match import match_call, tool_name
from agentkit.evals.report import Outcome, Progress, Report
from agentkit.evals.turn import Turn, take_turn
from agentkit.models.errors import BadField, EvalUnavailable

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

CATEGORIES = ("simple_python", "multiple", "irrelevance")
INSTALL = "pip install --no-deps bfcl-eval"
_HINT = " Note that the provided function is in Python 3 syntax."
_JSON_TYPES = {
    "integer": "integer", "number": "number", "float": "number", "string": "string", "boolean": "boolean",
    "bool": "boolean", "array": "array", "list": "array", "tuple": "array", "dict": "object", "object": "object",
    "any": "string",
}


@dataclass(frozen=True)
class Question:
    """One BFCL entry: `functions` as the benchmark documents them; `answer` maps the right function's name to its
    parameters' right values, and is None where no call is right."""

    id: str
    messages: list[dict[str, str]]
    functions: list[dict[str, Any]]
    answer: dict[str, dict[str, list[Any]]] | None

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The functions as OpenAI tools."""
        return [as_tool(function) for function in self.functions]


def load_questions(category: str, limit: int | None = None) -> list[Question]:
    """The first `limit` questions of a category, or all.

    Raises `BadField` for another category or a limit under 1, `EvalUnavailable` without the package or its files.
    """
    if category not in CATEGORIES:
        raise BadField(f"category is {category!r}; choose one of {', '.join(CATEGORIES)}")
    if limit is not None and limit < 1:
        raise BadField(f"limit is {limit}; it must be 1 or more")
    folder = _data_folder()
    name = f"BFCL_v4_{category}.json"
    entries = _read_lines(folder / name)
    answers = {}
    if category != "irrelevance":
        answers = {a["id"]: a["ground_truth"][0] for a in _read_lines(folder / "possible_answer" / name)}
    try:
        return [
            Question(e["id"], e["question"][0], e["function"], answers[e["id"]] if answers else None)
            for e in entries[:limit]
        ]
    except (KeyError, IndexError, TypeError) as error:
        raise EvalUnavailable(f"{folder / name} is not in the format of BFCL v4; {INSTALL} again") from error


def as_tool(function: dict[str, Any]) -> dict[str, Any]:
    """An OpenAI tool from a BFCL function document: JSON-schema types, no dots in the name, the benchmark's hints."""
    schema = function["parameters"]
    properties = {name: _json_schema(p) for name, p in schema["properties"].items()}
    return {
        "type": "function",
        "function": {
            **function,
            "name": tool_name(function["name"]),
            "description": function["description"] + _HINT,
            "parameters": {**schema, "type": "object", "properties": properties},
        },
    }


def judge(question: Question, turn: Turn) -> str:
    """The reason why an answer is wrong, or "".

    Where no call is right, a call that cannot be decoded does no harm; elsewhere it fails the question.
    """
    if question.answer is None:
        return f"unneeded: called {turn.calls[0]['name']!r}" if turn.calls else ""
    if turn.broken:
        return f"undecoded: {turn.broken}"
    if len(turn.calls) != 1:
        return f"count: {len(turn.calls)} calls, expected 1"
    (name, values), = question.answer.items()
    function = next((f for f in question.functions if f["name"] == name), question.functions[0])
    return match_call(function, turn.calls[0], values)


def score_bfcl(
    model: "BaseChatModel", category: str, limit: int | None = None, on_progress: Progress | None = None
) -> Report:
    """Put a category's questions to the model; the report's one measure is `correct`. Raises as `load_questions`."""
    questions = load_questions(category, limit)
    report = Report(f"bfcl {category}", ("correct",))
    for question in questions:
        turn = take_turn(model.bind_tools(question.tools), question.messages)
        # A prompt that does not fit is a failure everywhere: the model never saw the question.
        reason = turn.error or judge(question, turn)
        report.outcomes.append(
            Outcome(question.id, category, {"correct": not reason}, reason, question.messages[-1]["content"],
                    turn.calls, turn.text, turn.seconds, turn.tokens)
        )
        if on_progress:
            on_progress(len(report.outcomes), len(questions))
    return report


def _json_schema(schema: dict[str, Any], parameter: bool = True) -> dict[str, Any]:
    kind = schema.get("type", "string")
    new = {**schema, "type": _JSON_TYPES.get(kind, "string")}
    if parameter and kind == "float":
        new["format"] = "float"
        new["description"] = schema.get("description", "") + " This is a float type value."
    if "properties" in schema:
        new["properties"] = {name: _json_schema(p) for name, p in schema["properties"].items()}
    elif "items" in schema:
        new["items"] = _json_schema(schema["items"], parameter=False)
    return new


def _data_folder() -> Path:
    spec = importlib.util.find_spec("bfcl_eval")
    if spec is None or not spec.submodule_search_locations:
        raise EvalUnavailable(f"BFCL's questions are not installed: {INSTALL}")
    return Path(next(iter(spec.submodule_search_locations))) / "data"


def _read_lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise EvalUnavailable(f"cannot read {path} ({error}); {INSTALL} again") from error
