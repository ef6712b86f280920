"""Lesson 06: how far a run may go, and what stops it before."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.errors import GraphRecursionError

from agentkit.lab.verdict import Verdict, not_yet, right
from agentkit.models.scripted import ScriptedChatModel

PREDICTIONS = {
    "three tool rounds": (
        "An agent calls a tool three times, one call after the other, and then answers. What is the least recursion_limit "
        "with which create_agent gets through?",
        ["3", "4", "7", "8"], 3,
        "Each round is two supersteps (model, tools), the answer is one, and one must be left to notice the end: 2 * 3 + 2."),
}


@dataclass(frozen=True)
class Past:
    """One earlier call of the turn: `status` is "success" or "error", `result` what the model read."""

    name: str
    args: dict = field(default_factory=dict)
    status: str = "success"
    result: str = ""


@tool
def look(number: int) -> str:
    """Look at a number."""
    return "seen"


def run(rounds: list[int], limit: int, middleware: Sequence[Any] = ()) -> dict:
    """Run create_agent under this limit, with so many tool calls at once in each round, then an answer: its last state.

    Raises GraphRecursionError.
    """
    number = count()
    tape = [AIMessage("", tool_calls=[{"name": "look", "args": {"number": next(number)}, "id": None} for _ in range(calls)])
            for calls in rounds]
    agent = create_agent(ScriptedChatModel([*tape, "done"]), [look], middleware=middleware)
    return agent.invoke({"messages": [HumanMessage("Look.")]}, {"recursion_limit": limit})


def gets_through(rounds: list[int], limit: int) -> bool:
    """Whether such a run reaches its answer under this limit."""
    try:
        run(rounds, limit)
    except GraphRecursionError:
        return False
    return True


def least_limit(given: Callable[[list[int]], int] | None) -> Verdict:
    """Whether `given(rounds)` is the least limit for runs with these numbers of calls in their rounds; each is run."""
    if not callable(given):
        return not_yet("Define the function least_limit(rounds) first.")
    for rounds in ([], [1], [1, 1, 1], [4], [2, 1, 3, 1]):
        limit = given(list(rounds))
        told = f"For rounds={rounds} you say {limit!r}"
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            return not_yet(f"{told}. A limit is a whole number, 1 or more.")
        if not gets_through(rounds, limit):
            return not_yet(f"{told}; create_agent was run with it and raised GraphRecursionError. "
                           + ("Nothing is left to notice the end." if gets_through(rounds, limit + 1) else "What is one superstep?"))
        if limit > 1 and gets_through(rounds, limit - 1):
            why = "Calls of one message run in one superstep." if max(rounds, default=0) > 1 else "Count the supersteps again."
            return not_yet(f"{told}; create_agent got through with {limit - 1} as well. {why}")
    return right("Each of these limits was run, and one less raised. Rounds count, not calls.")


_FAIL = {"status": "error", "result": "Error: no such page"}
_POLL = {"status": "success", "result": "still running"}
_PAGE, _JOB = {"number": 3}, {"id": 7}
# What was done so far, the call to judge, whether it must be stopped, and what a guard that errs has overlooked.
_CASES = [
    ([], Past("open_page", _PAGE), False, "Nothing was called before. A first call always runs."),
    ([Past("open_page", _PAGE, **_FAIL)], Past("open_page", _PAGE), False,
     "It failed once. A second try is fair: the network may have been down."),
    ([Past("open_page", _PAGE, **_FAIL)] * 2, Past("open_page", _PAGE), True,
     "The same call failed twice in a row. A third is the loop you are to end."),
    ([Past("job_state", _JOB, **_POLL)] * 5, Past("job_state", _JOB), False,
     "The tool polls: same call, and it succeeds each time. Waiting is not failing."),
    ([Past("open_page", {"number": n}, **_FAIL) for n in (1, 2)], Past("open_page", _PAGE), False,
     "The arguments changed. Who tries another page learns something."),
    ([Past("open_page", _PAGE, **_FAIL), Past("search", {"text": "page 3"}), Past("open_page", _PAGE, **_FAIL)],
     Past("open_page", _PAGE), False, "Another call stood between the failures. They were not in a row."),
    ([Past("open_page", _PAGE, **_FAIL), Past("open_page", _PAGE, "success", "text")], Past("open_page", _PAGE), False,
     "The last try succeeded. The failures were not in a row."),
    ([Past("open_page", _PAGE, **_FAIL)] * 2, Past("job_state", _PAGE), False, "It is another tool that is asked for now."),
    ([Past("job_state", _JOB, **_POLL)] * 3 + [Past("job_state", _JOB, **_FAIL)] * 2, Past("job_state", _JOB), True,
     "A polling tool, but its last two calls failed, and this is the third."),
]


def guard(given: Callable[[Past, list[Past]], bool] | None) -> Verdict:
    """Whether `given(call, before)` is true for the third identical failing call in a row, and only then."""
    if not callable(given):
        return not_yet("Define the function must_stop(call, before) first.")
    for before, call, stop, why in _CASES:
        try:
            said = given(call, list(before))
        except Exception as error:
            return not_yet(f"With {len(before)} earlier calls your guard raised {type(error).__name__}: {error}. A guard must hold for any past.")
        if bool(said) != stop:
            past = ", ".join(f"{_shown(done)} {done.status}" for done in before) or "nothing"
            return not_yet(f"Before: {past}. Now: {_shown(call)}. Your guard {'let it run' if stop else 'stopped it'}. {why}")
    return right("It ends a call that keeps failing and leaves a call that waits alone. agentkit's guard cannot: it looks at calls only.")


def _shown(call: Past) -> str:
    return f"{call.name}({', '.join(f'{key}={value!r}' for key, value in call.args.items())})"
