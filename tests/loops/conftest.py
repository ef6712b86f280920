"""Agents on a tape, for one exact course of events."""

import pytest

from agentkit.loops.build import build_agent
from agentkit.models import ScriptedChatModel
from agentkit.tools.calculator import calculator_tool


@pytest.fixture
def scripted():
    """Makes an agent on a tape; the calculator is its tool unless others are given."""

    def make(*tape, tools=None, **options):
        return build_agent(
            model=ScriptedChatModel(list(tape)), tools=[calculator_tool()] if tools is None else tools, **options
        )

    return make
