"""A run as its graph tells it: which node works, how often each did, which edges were taken, what each step changed.

Pure Python, and of the run's events only, so that a replay tells the same.
"""

from typing import Any

from langgraph.graph import END, START

from agentkit.events import Event, RunEnded, RunStarted, StepEnded, StepStarted
from agentkit.lab.graph_shape import as_lines, edges_of, levels_of, path_to
from agentkit.lab.rows import Rows, as_json, call_text

LONGEST = 240  # characters that a change shows of one value
EMPTY = "Nothing has run yet."


class GraphStory:
    """Follows a run. `states` holds (state, visits) by node, `taken` the numbers of edges, `rows` a row for each step.

    A state is "running", "done" or "error". A node that holds a graph works while one inside it does.
    """

    def __init__(self) -> None:
        self.shape: dict | None = None
        self.rows = Rows(EMPTY)
        self._forget()

    def begin(self, shape: dict | None) -> None:
        """Another graph, and nothing has run on it yet."""
        self.shape = shape
        self._forget()
        self.rows.clear()

    def _forget(self) -> None:
        self.states: dict[str, tuple[str, int]] = {}
        self.taken: set[int] = set()
        self._step = 0
        self._at: dict[str, set[str]] = {}  # inside of which node: where the run stood before this step, and stands
        self._before: dict[str, set[str]] = {}
        self._broken = ""  # the last node that ended with an error

    def take(self, event: Event) -> None:
        """Follow one event of the run."""
        match event:
            case RunStarted(limit=limit):
                self._forget()
                self.rows.clear(f"running, at most {limit} steps" if limit else "running")
                self._mark(START, "done", 0)
            case StepStarted(step=step, node=node):
                self._start(step, node)
            case StepEnded(step=step, node=node, change=change):
                failed = list(change) == ["error"]
                self._mark(node, "error" if failed else "done", 0)
                self._broken = node if failed else ""
                self.rows.add("error" if failed else "system", f"{step} {node}", change_text(change))
            case RunEnded(reason=reason):
                self._end(reason)

    def _start(self, step: int, node: str) -> None:
        if step != self._step:
            self._step, self._before = step, {inside: set(ids) for inside, ids in self._at.items()}
            self._at = {}
        self._mark(node, "running", 1)
        for inside, id in path_to(self.shape, node) if self.shape else ():
            before = self._before.get(inside, {START})
            # To stay in a node that holds a graph is no way from it to itself.
            if id == node or before != {id}:
                self._go(inside, before, id)
            self._at.setdefault(inside, set()).add(id)

    def _end(self, reason: str) -> None:
        for node, (state, visits) in list(self.states.items()):
            if state == "running" or node == self._broken and reason == "error":
                self.states[node] = ("error" if reason == "error" else "done", visits)
        if reason == "answer":
            for inside, ids in self._at.items():
                self._go(inside, ids, END)
            self._mark(END, "done", 0)
        steps = f"{self._step} step{'' if self._step == 1 else 's'}"
        self.rows.foot(f"ended after {steps}: {reason}")

    def _mark(self, node: str, state: str, more: int) -> None:
        """Set a node's state. The nodes around it work until the run ends, also between the steps inside them."""
        for _, id in path_to(self.shape, node) if self.shape else [("", node)]:
            around, visits = id != node, self.states.get(id, ("", 0))[1]
            self.states[id] = ("running", visits or 1) if around else (state, visits + more)

    def _go(self, inside: str, before: set[str], after: str) -> None:
        if self.shape:
            level = levels_of(self.shape)[inside]["edges"]
            ways = [id(edge) for edge in level if edge["from"] in before and edge["to"] == after]
            self.taken |= {number for number, edge in edges_of(self.shape) if id(edge) in ways}

    def text(self) -> str:
        """The graph, what each node did, and the steps, as plain text."""
        lines = as_lines(self.shape) if self.shape else ["no graph yet"]
        ran = [f"{node} {state} ×{visits}" for node, (state, visits) in self.states.items() if visits]
        return "\n".join([*lines, "ran: " + (", ".join(ran) or "nothing"), self.rows.text()])


def change_text(change: dict) -> str:
    """A node's state change in words, a key a line: messages with who says what, every other key with its new value."""
    lines = []
    for key, value in change.items():
        if key == "messages" and isinstance(value, list) and all(isinstance(m, dict) for m in value):
            told = [_message(message) for message in value]
            lines += [
                f"messages +{len(value)}  {told[0]}" if told else "messages +0",
                *(" " * 13 + t for t in told[1:]),
            ]
        else:
            lines.append(f"{key} = {_short(value if isinstance(value, str) and key == 'error' else as_json(value))}")
    return "\n".join(lines) or "no change"


def _message(message: dict) -> str:
    kind, said = message.get("type"), _said(message.get("content"))
    if kind == "ai":
        refused = (
            (message.get("additional_kwargs") or {}).get("refused_calls") or message.get("invalid_tool_calls") or []
        )
        calls = [f"calls {call_text(call['name'], call['args'])}" for call in message.get("tool_calls") or []]
        calls += [f"malformed call of {call.get('name') or 'unknown'}" for call in refused]
        return "AI: " + _short("; ".join([*([said] if said else []), *calls]) or "(nothing)")
    if kind == "tool":
        status = " (error)" if message.get("status") == "error" else ""
        return f"{message.get('name') or 'tool'} result{status}: {_short(said)}"
    if kind == "remove":
        return "a message is removed"
    return f"{ {'human': 'Human', 'system': 'System'}.get(kind, kind) }: {_short(said)}"


def _said(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part if isinstance(part, str) else str(part.get("text", "")) for part in content)
    return str(content or "")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
