"""`create_plan`: text for the model, the steps for the loop."""

import pytest

from agentkit.tools import tools_for
from agentkit.tools.base import ToolFailed


def test_text_for_whoever_calls_it_and_the_steps_as_artifact():
    (tool,) = tools_for(["create_plan"])
    assert tool.invoke({"steps": [" find\n it ", "", "use it"]}).endswith("1. find it\n2. use it")
    call = {"type": "tool_call", "name": "create_plan", "id": "1", "args": {"steps": ["a"]}}
    assert tool.invoke(call).artifact == {"plan": ["a"]}


@pytest.mark.parametrize("steps", [[], ["", "  "], ["x"] * 21])
def test_too_few_and_too_many_steps_are_refused(steps):
    with pytest.raises(ToolFailed, match="1 to 20"):
        tools_for(["create_plan"])[0].invoke({"steps": steps})
