"""`build_agent`: one call for every loop. Importing this imports no loop, so that the command line can list them."""

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agentkit.models.errors import AgentkitError, BadField

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.tools import BaseTool
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from agentkit.loops.agent import Agent
    from agentkit.models.profile import GenerationProfile

# Name: the module whose `build(model, tools, checkpointer, profile)` makes the agent.
LOOPS = {"lite": "agentkit.loops.lite", "handmade": "agentkit.loops.handmade",
         "planned": "agentkit.loops.planned", "react": "agentkit.loops.react"}
THREADLESS = ("handmade",)


def build_agent(
    loop: str = "react",
    *,
    model: "BaseChatModel",
    tools: Sequence["BaseTool"] = (),
    checkpointer: "BaseCheckpointSaver | None" = None,
    profile: "GenerationProfile | None" = None,
) -> "Agent":
    """An agent that answers with `model` and `tools`.

    `profile` bounds its turns (default: the model's own): a graph by `recursion_limit`, `handmade` by `max_steps`.

    Raises AgentkitError for an unknown loop and BadField for tools of one name.
    """
    check_loop(loop)
    names: list[Any] = [tool.name for tool in tools]
    if twice := {name for name in names if names.count(name) > 1}:
        raise BadField(f"tools have the same name: {', '.join(sorted(twice))}")
    from agentkit.loops.agent import own_profile

    build = importlib.import_module(LOOPS[loop]).build
    return build(model, list(tools), checkpointer, profile or own_profile(model))


def check_thread(name: str, loop: str) -> None:
    """Raise BadField for a name that no thread can have, and for a loop that keeps none."""
    if not isinstance(name, str) or not 0 < len(name.strip()) <= 200:
        raise BadField(f"thread is {name!r}; a name has 1 to 200 characters")
    if loop in THREADLESS:
        able = ", ".join(other for other in LOOPS if other not in THREADLESS)
        raise BadField(f"thread {name!r}: the {loop} loop keeps no threads; use a loop that does: {able}")


def check_loop(loop: str) -> None:
    """Raise AgentkitError for a loop that does not exist."""
    if loop not in LOOPS:
        raise AgentkitError(f"loop {loop!r} is unknown; known are {', '.join(LOOPS)}")
