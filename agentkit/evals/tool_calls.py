"""The held-out tool-calling set: does a model call a tool, the right one, with the right arguments?

The cases are `data/evals/tool_calls.jsonl`; its README describes them and the rules scored here.
"""

import json
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentkit.evals.report import Outcome, Progress, Report
from agentkit.evals.turn import add_tokens, take_turn
from agentkit.models.errors import EvalUnavailable

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

KINDS = ("single", "none", "new_tool", "two_calls")
MEASURES = ("well_formed", "right_tool", "exact")


@dataclass(frozen=True)
class Expected:
    """A call the model should make.

    `accept` lists further right values per parameter; one that is only there may be left out. `result` is what the
    tool returns, shown to the model before its next turn.
    """

    name: str
    arguments: dict[str, Any]
    accept: dict[str, list[Any]] = field(default_factory=dict)
    result: str = ""


@dataclass(frozen=True)
class Case:
    """One request: tools in OpenAI's format, messages as {"role", "content"}, and the calls expected in order."""

    id: str
    kind: str
    tools: list[dict[str, Any]]
    messages: list[dict[str, str]]
    expect: list[Expected]

    @property
    def request(self) -> str:
        """The user's words."""
        return self.messages[-1]["content"]

    def parameters(self, name: str) -> dict[str, Any]:
        """JSON schema of a tool's parameters; KeyError for a tool the case does not offer."""
        for tool in self.tools:
            if tool["function"]["name"] == name:
                return tool["function"]["parameters"]
        raise KeyError(name)


def cases_file() -> Path:
    """Path of the committed set; `EvalUnavailable` where it is missing."""
    package = Path(str(files("agentkit")))
    for folder in (package / "_data", package.parent / "data"):
        path = folder / "evals" / "tool_calls.jsonl"
        if path.is_file():
            return path
    raise EvalUnavailable("data/evals/tool_calls.jsonl is not part of this installation; pass a path to load_cases")


def load_cases(path: str | Path | None = None) -> list[Case]:
    """Cases of a JSON-lines file, by default the committed set.

    Raises `EvalUnavailable` for a file that cannot be read and, with the line number, for a line that is no case.
    """
    path = Path(path) if path else cases_file()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise EvalUnavailable(f"cannot read {path}: {error}") from error
    cases = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            cases.append(_case(json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise EvalUnavailable(f"{path}, line {number} is no case: {type(error).__name__}: {error}") from error
    return cases


def run_case(model: "BaseChatModel", case: Case) -> Outcome:
    """Let the model answer one case and mark it; a ToolMessage follows each right call while another is expected.

    Errors of the model pass, except `ContextFull`, which fails the case.
    """
    from langchain_core.messages import ToolMessage

    bound = model.bind_tools(case.tools)
    wanted = [e.name for e in case.expect]
    messages: list[Any] = list(case.messages)
    calls: list[dict[str, Any]] = []
    broken, text, seconds, tokens = "", "", 0.0, None
    while True:
        turn = take_turn(bound, messages)
        seconds += turn.seconds
        tokens = add_tokens(tokens, turn)
        broken = broken or turn.broken
        text = turn.text
        first = len(calls)
        calls += turn.calls
        names = [c["name"] for c in calls]
        if not turn.calls or len(calls) >= len(wanted) or names != wanted[: len(names)]:
            break
        messages.append(turn.message)
        for call, expected in zip(turn.message.tool_calls, case.expect[first:]):
            messages.append(ToolMessage(expected.result, tool_call_id=call["id"] or "call", name=call["name"]))
    marks, reason = _mark(case, calls, broken)
    return Outcome(case.id, case.kind, marks, reason, case.request, calls, text, seconds, tokens)


def score(model: "BaseChatModel", cases: list[Case], on_progress: Progress | None = None) -> Report:
    """Run every case; the report has the measures well_formed, right_tool and exact."""
    report = Report("tools", MEASURES)
    for case in cases:
        report.outcomes.append(run_case(model, case))
        if on_progress:
            on_progress(len(report.outcomes), len(cases))
    return report


def argument_problem(expected: Expected, given: dict[str, Any], parameters: dict[str, Any]) -> str:
    """The first way in which arguments differ from the expected ones, or ""; `parameters` is the tool's JSON schema."""
    properties = parameters.get("properties", {})
    for name, value in expected.arguments.items():
        if name not in given:
            if name not in parameters.get("required", []) and _is_default(properties.get(name, {}), value):
                continue
            return f"{expected.name}: {name} is missing, expected {value!r}"
        if not any(same(given[name], right) for right in [value, *expected.accept.get(name, [])]):
            return f"{expected.name}: {name} is {given[name]!r}, expected {value!r}"
    for name, value in given.items():
        if name in expected.arguments or any(same(value, right) for right in expected.accept.get(name, [])):
            continue
        if not _is_default(properties.get(name, {}), value):
            return f"{expected.name}: {name}={value!r} was not asked for"
    return ""


def same(value: Any, expected: Any) -> bool:
    """Equality of arguments: numbers by value, strings after strip, lists in order, objects key by key."""
    if isinstance(value, bool) or isinstance(expected, bool):
        return value is expected
    if isinstance(value, int | float) and isinstance(expected, int | float):
        return value == expected
    if isinstance(value, str) and isinstance(expected, str):
        return value.strip() == expected.strip()
    if isinstance(value, list) and isinstance(expected, list):
        return len(value) == len(expected) and all(map(same, value, expected))
    if isinstance(value, dict) and isinstance(expected, dict):
        return value.keys() == expected.keys() and all(same(value[k], expected[k]) for k in value)
    return value is None and expected is None


def _is_default(schema: dict[str, Any], value: Any) -> bool:
    return "default" in schema and same(value, schema["default"])


def _mark(case: Case, calls: list[dict[str, Any]], broken: str) -> tuple[dict[str, bool], str]:
    wanted, names = [e.name for e in case.expect], [c["name"] for c in calls]
    problem = ""
    # For "no call" a broken attempt is an attempt all the same.
    right_tool = names == wanted and not (broken and not wanted)
    if names != wanted:
        problem = f"called {', '.join(names) or 'nothing'}, expected {', '.join(wanted) or 'no call'}"
    else:
        for call, expected in zip(calls, case.expect):
            problem = problem or argument_problem(expected, call["arguments"], case.parameters(expected.name))
    exact = right_tool and not broken and not problem
    return {"well_formed": not broken, "right_tool": right_tool, "exact": exact}, broken or problem


def _case(data: dict[str, Any]) -> Case:
    if data["kind"] not in KINDS:
        raise ValueError(f"kind {data['kind']!r} is none of {', '.join(KINDS)}")
    case = Case(data["id"], data["kind"], data["tools"], data["messages"], [Expected(**e) for e in data["expect"]])
    for expected in case.expect:
        case.parameters(expected.name)
    if not case.request:
        raise ValueError("the request is empty")
    return case
