"""Still pictures for a notebook: the versions line, and a conversation as a timeline that reads without a kernel."""

from collections.abc import Iterable
from importlib.metadata import version

from langchain_core.messages import BaseMessage

from agentkit.lab.message_story import rows_of
from agentkit.lab.rows import Still

LIBRARIES = ("agentkit", "mlx", "mlx-lm", "langgraph", "langchain-core")


def versions() -> str:
    """The versions this lesson was run with, on one line; they must be those of the lock."""
    return " · ".join(f"{name} {version(name)}" for name in LIBRARIES)


def timeline(messages: Iterable[BaseMessage]) -> Still:
    """A conversation, one row a message or call: who, and what. Shows as HTML in a notebook and as text elsewhere."""
    return Still(row for message in messages for row in rows_of(message))
