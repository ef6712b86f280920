"""The thinking budget, enforced at the token."""

from dataclasses import dataclass, field


@dataclass
class ThinkingBudget:
    """Counts thought tokens and says which tokens must come next once the budget is spent.

    Arms on the emitted opener as well as on one the template wrote; counts until the close or the start of a call.
    opener, closer, call: token ids of `<think>`, `</think>` and of a call's opening tag (empty where a model has none).
    """

    budget: int
    opener: tuple[int, ...]
    closer: tuple[int, ...]
    call: tuple[int, ...] = ()
    nudge: tuple[int, ...] = ()
    open: bool = False
    used: int = 0
    forced: bool = False
    after_forced_close: int = 0
    _tail: list[int] = field(default_factory=list)

    def begin(self, prompt: list[int]) -> list[int]:
        """Look at the prompt: a template may have opened the thought already. Returns tokens to force at once."""
        if self.opener:
            self.open = _last(prompt, self.opener) > _last(prompt, self.closer)
        return self._close() if self.open and self.budget == 0 else []

    def saw(self, token: int) -> list[int]:
        """Take one emitted token; returns the tokens to force now (nudge and closer), usually none."""
        if not self.opener:
            return []
        self._tail = (self._tail + [token])[-max(len(self.opener), len(self.closer), len(self.call)):]
        if not self.open:
            if self.forced:
                self.after_forced_close += 1
            if self._ends(self.opener):
                self.open = True
                return self._close() if self.used >= self.budget else []
            return []
        if self._ends(self.closer) or self._ends(self.call):
            self.open = False
            self.used -= len(self.closer) - 1 if self._ends(self.closer) else len(self.call) - 1
            return []
        self.used += 1
        return self._close() if self.used >= self.budget else []

    @property
    def at_call(self) -> bool:
        """Whether the tokens seen last open a call."""
        return self._ends(self.call)

    def _close(self) -> list[int]:
        self.forced, self.open = True, False
        return [*self.nudge, *self.closer]

    def _ends(self, marker: tuple[int, ...]) -> bool:
        return bool(marker) and tuple(self._tail[-len(marker):]) == marker


def _last(tokens: list[int], marker: tuple[int, ...]) -> int:
    """Index of the last occurrence of a marker, -1 if there is none."""
    size = len(marker)
    return next((i for i in range(len(tokens) - size, -1, -1) if tuple(tokens[i:i + size]) == marker), -1) if size else -1
