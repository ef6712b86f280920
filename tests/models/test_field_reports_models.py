"""Reports from the field about chat models on MLX, each as a test that is named by its source."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool

ASK = [HumanMessage("2*3")]
CALL = AIMessage("", tool_calls=[{"name": "multiply", "args": {"a": 2, "b": 3}, "id": "1"}])
RESULT = ToolMessage("6", tool_call_id="1", name="multiply")


@tool
def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers."""
    return a * b


@pytest.fixture(scope="module")
def bundled():
    from agentkit.models import load_model

    return load_model("bundled").with_profile(temperature=0)


def test_langchain_community_308_bound_tools_reach_the_template_and_calls_come_back(bundled):
    prompt = bundled.prompt_tokens(ASK, [convert_to_openai_tool(multiply)])
    assert "multiply(a: integer, b: integer)" in bundled.engine.tokenizer.decode(prompt)
    message = bundled.bind_tools([multiply], tool_choice="multiply").invoke(ASK)
    assert message.usage_metadata["input_tokens"] == len(prompt) > len(bundled.prompt_tokens(ASK))
    (call,) = message.tool_calls
    assert call["name"] == "multiply" and call["id"] and all(type(call["args"][key]) is int for key in "ab")
    assert multiply.invoke(call).tool_call_id == call["id"], "what comes back can be run as it is"


@pytest.mark.parametrize("history", [
    [*ASK, CALL, RESULT],
    [*ASK, CALL, RESULT, AIMessage("6")],
    [*ASK, SystemMessage("Be brief.")],
    [SystemMessage("Be brief.")],
], ids=["result", "answer", "instruction", "instruction alone"])
def test_langchain_community_308_any_kind_of_message_may_be_the_last(bundled, history):
    answer = bundled.bind_tools([multiply]).invoke(history, max_tokens=4, constrained=False)
    assert isinstance(answer, AIMessage) and answer.usage_metadata["output_tokens"] >= 1
    shown = bundled.engine.tokenizer.decode(bundled.prompt_tokens(history))
    assert all(text in shown for text in [str(message.content) for message in history]), "no message is left out"
