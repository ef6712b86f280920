"""Agents on a tape, for one exact course of events."""

import pytest

from agentkit.loops.build import build_agent
from agentkit.models import ScriptedChatModel
from agentkit.tools.calculator import calculator_tool
from tests.histories import call

GRAPH_LOOPS = ("lite", "react", "planned")


class Taped(ScriptedChatModel):
    """A tape for the loop alone: the planner is told "simple" without taking a step of it."""

    def bind_tools(self, tools, *, tool_choice=None, **kwargs):
        if tool_choice == "plan":
            return ScriptedChatModel([call("plan", kind="simple", steps=[])])
        return super().bind_tools(tools, tool_choice=tool_choice, **kwargs)


@pytest.fixture
def loop():
    """The loop of `scripted`; a module that overrides it with a parametrised fixture runs its tests on several."""
    return "lite"


@pytest.fixture
def scripted(loop):
    """Makes an agent on a tape; the calculator is its tool unless others are given."""

    def make(*tape, tools=None, **options):
        options.setdefault("loop", loop)
        return build_agent(model=Taped(list(tape)), tools=[calculator_tool()] if tools is None else tools, **options)

    return make
