"""What every tool module uses: how a tool is described to the registry, what it is given, how it fails."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_core.tools import ToolException

from agentkit.models.errors import AgentkitError

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


class ToolFailed(AgentkitError, ToolException):
    """A tool could not do what was asked; the text is one line that tells the model what to try instead."""


@dataclass(frozen=True)
class ToolContext:
    """What a tool may work with: the workspace is the only folder whose files it sees."""

    workspace: Path = field(default_factory=Path.cwd)


@dataclass(frozen=True)
class ToolSpec:
    """One tool as the registry knows it. A module lists its own in `TOOLS`.

    `needs` names abilities of the machine or the model ("network", later "vision" or "bash"); `touches` says in a few
    words what the tool reads or changes.
    """

    name: str
    family: str
    make: Callable[[ToolContext], "BaseTool"]
    touches: str
    needs: tuple[str, ...] = ()
