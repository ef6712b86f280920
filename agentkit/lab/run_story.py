"""What the Run panel shows of a run, made from its events alone: rows, a footer, and how far the run is."""

import collections

from agentkit.events import (
    Event,
    FaultInjected,
    GuardVerdict,
    PrefixReuse,
    RunEnded,
    RunStarted,
    StepEnded,
    StepStarted,
    Token,
    ToolCalled,
    ToolReturned,
)
from agentkit.lab.rows import Rows, call_text, took

_CHANNELS = {"answer": ("ai", "model"), "thought": ("thought", "thought"), "call": ("writes", "writes")}
WINDOW = 3.0  # seconds over which the live rate is taken


class RunStory:
    """Tokens grow the last row, everything else adds one. `rows` is what is shown.

    The text holds no times and no speeds, so that the same events give the same text; those are in `speed()`.
    """

    def __init__(self):
        self.rows = Rows("Nothing has run yet.")
        self._reset(0)

    def _reset(self, limit: int) -> None:
        self.limit, self.step, self.node, self.tokens = limit, 0, "", 0
        self.ended: RunEnded | None = None
        self._open: tuple[str, int] | None = None  # channel and key of the row that tokens grow
        self._written: list[int] = []  # rows in which a call is being written
        self._last_answer: int | None = None
        self._times: collections.deque[float] = collections.deque(maxlen=400)

    def take(self, event: Event) -> None:
        """Follow one event."""
        match event:
            case RunStarted():
                self.rows.clear("")
                self._reset(event.limit)
            case StepStarted():
                self.step, self.node = max(self.step, event.step), event.node
                self._open = None
            case StepEnded():
                self._open = None
            case Token():
                self._token(event)
            case PrefixReuse():
                self._add("prompt", "prompt", f"{event.prompt} tokens, {event.reused} of them reused")
            case ToolCalled():
                self._called(event)
            case ToolReturned():
                kind, who = ("error", "error") if event.status == "error" else ("tool", "result")
                self._add(kind, who, event.content, took(event.seconds))
            case GuardVerdict():
                self._add("error" if event.verdict == "stop" else "guard", event.verdict, f"{event.guard}: {event.detail}")
            case FaultInjected():
                self._add("guard", "fault", event.detail)
            case RunEnded():
                self._end(event)

    def _add(self, kind: str, who: str, text: str, note: str = "") -> int:
        self._open = None
        return self.rows.add(kind, who, text, note)

    def _token(self, event: Token) -> None:
        self.tokens += 1
        self._times.append(event.at)
        if self._open is None or self._open[0] != event.channel:
            kind, who = _CHANNELS.get(event.channel, ("thought", event.channel))
            key = self.rows.add(kind, who)
            self._open = (event.channel, key)
            if event.channel == "call":
                self._written.append(key)
            elif event.channel == "answer":
                self._last_answer = key
        self.rows.append(self._open[1], event.text)

    def _called(self, event: ToolCalled) -> None:
        kind, who = ("error", "refused") if event.invalid else ("call", "call")
        text = f"{event.invalid}: {event.name}" if event.invalid else call_text(event.name, event.args)
        self._open = None
        # The call takes the place of what was written, whatever form the model writes calls in.
        if self._written:
            self.rows.set(self._written.pop(0), kind=kind, who=who, text=text)
        else:
            self.rows.add(kind, who, text)

    def _end(self, event: RunEnded) -> None:
        self.ended, self._open = event, None
        shown = "" if self._last_answer is None else self.rows.get(self._last_answer).text
        if event.answer.strip() not in shown or not event.answer.strip():
            self.rows.add("ai" if event.reason == "answer" else "error", "model", event.answer)
        steps = f"{self.step} of {self.limit} steps" if self.limit else f"{self.step} steps"
        tokens = event.usage.get("generated_tokens") or self.tokens
        self.rows.foot(f"ended: {event.reason}; {steps}; {tokens} tokens")

    def share(self) -> float | None:
        """How much of the limit of steps is used, 0 to 1; None where there is none."""
        return min(1.0, self.step / self.limit) if self.limit else None

    def place(self) -> list[str]:
        """Where a run under way stands: step and node. Nothing once it is over, the footer says it then."""
        if self.ended or not self.step:
            return []
        return [f"step {self.step} of {self.limit}" if self.limit else f"step {self.step}", self.node]

    def speed(self) -> list[str]:
        """Tokens so far, tokens a second and, once the run is over, its seconds."""
        parts = [f"{self.tokens} tokens"] if self.tokens and not self.ended else []
        if rate := self.rate():
            parts.append(f"{rate:.0f} tokens a second")
        if self.ended and self.ended.usage.get("seconds") is not None:
            parts.append(took(self.ended.usage["seconds"]))
        return parts

    def rate(self) -> float | None:
        """Tokens a second: the run's own figure once it is over, before that what the last seconds brought."""
        if self.ended:
            return self.ended.usage.get("tokens_per_second")
        times = [at for at in self._times if at >= self._times[-1] - WINDOW] if self._times else []
        spent = times[-1] - times[0] if times else 0
        return (len(times) - 1) / spent if spent > 0.2 else None
