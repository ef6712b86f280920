"""The result of parsing a turn, and the deltas that build it up piece by piece."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

BLANK = " \t\r\n"


@dataclass(frozen=True)
class Delta:
    """What became certain with a chunk.

    kind: "reasoning" or "content" (`text` to append), "call" or "invalid" (`call` in LangChain's form, `text` the
    markup it was read from, once a block), "reclassify" (`text`, all content so far, was reasoning: append it there
    and start the content anew).
    """

    kind: str
    text: str = ""
    call: dict | None = None


@dataclass
class Parsed:
    """A whole turn. Calls are dicts: name, args, id, type; invalid ones have their raw text as args, and `error`."""

    reasoning: str = ""
    content: str = ""
    tool_calls: list[dict] = field(default_factory=list)
    invalid_tool_calls: list[dict] = field(default_factory=list)

    def add(self, delta: Delta) -> None:
        """Apply one delta. All deltas of a turn, applied to an empty Parsed, give what `close` returns."""
        match delta.kind:
            case "reasoning":
                self.reasoning += delta.text
            case "content":
                self.content += delta.text
            case "reclassify":
                self.reasoning, self.content = self.reasoning + delta.text, ""
            case "call":
                self.tool_calls.append(delta.call)
            case "invalid":
                self.invalid_tool_calls.append(delta.call)


class Teller:
    """Tells deltas and keeps their sum. Blank space is told only between words: at the edges it is layout."""

    def __init__(self, new_id: Callable[[], str] | None = None):
        # Nine letters and digits: Mistral's chat templates refuse any other id.
        self._new_id = new_id or (lambda: uuid.uuid4().hex[:9])
        self._gaps = {"reasoning": "", "content": ""}
        self._deltas: list[Delta] = []
        self.sum = Parsed()

    def text(self, kind: str, text: str) -> None:
        """Tell text of a kind; blank space at its end waits for more."""
        text = self._gaps[kind] + text
        words = text.rstrip(BLANK)
        self._gaps[kind] = text[len(words):]
        if not getattr(self.sum, kind):
            words = words.lstrip(BLANK)
        if words:
            self._tell(Delta(kind, words))

    def reclassify(self) -> None:
        """All content so far was reasoning."""
        if self.sum.content:
            if self.sum.reasoning and self._gaps["reasoning"]:
                self._tell(Delta("reasoning", self._gaps["reasoning"]))
            self._tell(Delta("reclassify", self.sum.content))
            self._gaps["reasoning"] = self._gaps["content"]
        self._gaps["content"] = ""

    def call(self, name: str, args: dict, raw: str) -> None:
        """Tell a well-formed call."""
        self._tell(Delta("call", raw, {"name": name, "args": args, "id": self._new_id(), "type": "tool_call"}))

    def invalid(self, name: str | None, args: str, error: str, raw: str) -> None:
        """Tell a refused call; `args` is its text."""
        self._tell(Delta("invalid", raw, {"name": name, "args": args, "id": self._new_id(), "error": error,
                                          "type": "invalid_tool_call"}))

    def take(self) -> list[Delta]:
        """What was told since the last take."""
        told, self._deltas = self._deltas, []
        return told

    def _tell(self, delta: Delta) -> None:
        self.sum.add(delta)
        if self._deltas and self._deltas[-1].kind == delta.kind and not delta.call and delta.kind != "reclassify":
            delta = Delta(delta.kind, self._deltas.pop().text + delta.text)
        self._deltas.append(delta)
