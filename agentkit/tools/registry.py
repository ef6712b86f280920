"""Every tool by name. A family is a module of this package with a tuple `TOOLS`: adding the module is all it takes."""

import importlib
import pkgutil
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import agentkit.tools
from agentkit.models.errors import AgentkitError
from agentkit.tools.base import ToolContext, ToolSpec

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

DEFAULT = ("calculator", "get_weather", "read_file")


@cache
def all_tools() -> dict[str, ToolSpec]:
    """The specs of all tools, by name, family by family."""
    specs: dict[str, ToolSpec] = {}
    for found in pkgutil.iter_modules(agentkit.tools.__path__):
        if found.name == "registry":
            continue
        for spec in getattr(importlib.import_module(f"agentkit.tools.{found.name}"), "TOOLS", ()):
            if spec.name in specs:
                raise ValueError(f"two tools are named {spec.name}")
            specs[spec.name] = spec
    return dict(sorted(specs.items(), key=lambda item: (item[1].family, item[0])))


def tools_for(names: Iterable[str], workspace: Path | str | None = None) -> list["BaseTool"]:
    """The tools of these names, each once, in the order given, working in `workspace` (default: the current folder).

    Raises AgentkitError for an unknown name or a workspace that is no folder.
    """
    known = all_tools()
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name not in known:
            raise AgentkitError(f"tool {name!r} is unknown; known are {', '.join(known)}")
    folder = Path.cwd() if workspace is None else Path(workspace).expanduser()
    if not folder.is_dir():
        raise AgentkitError(f"the workspace {str(folder)!r} is not a folder")
    context = ToolContext(workspace=folder.resolve())
    return [known[name].make(context) for name in wanted]


def default_tools(workspace: Path | str | None = None) -> list["BaseTool"]:
    """The tools of `agentkit ask`."""
    return tools_for(DEFAULT, workspace)
