"""The recorded conversation that serves as a load: ten user turns with six tools, `data/tapes/trace_10_turns.json`."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from agentkit.models.errors import EvalUnavailable


@dataclass(frozen=True)
class Trace:
    """Tools and messages in OpenAI's format, as a chat-completions server reads them."""

    tools: list[dict[str, Any]]
    messages: list[dict[str, Any]]

    def requests(self) -> Iterator[list[dict[str, Any]]]:
        """The messages of each request to a model: everything before an assistant message of the recording."""
        for index, message in enumerate(self.messages):
            if message["role"] == "assistant":
                yield self.messages[:index]


def trace_file() -> Path:
    """Path of the committed recording; `EvalUnavailable` where it is missing."""
    package = Path(str(files("agentkit")))
    for folder in (package / "_data", package.parent / "data"):
        path = folder / "tapes" / "trace_10_turns.json"
        if path.is_file():
            return path
    raise EvalUnavailable("data/tapes/trace_10_turns.json is not part of this installation")


def load_trace() -> Trace:
    """The committed recording."""
    data = json.loads(trace_file().read_text(encoding="utf-8"))
    return Trace(data["tools"], data["messages"])
