"""Checks of lesson 02: each wrong answer gets the message meant for it, the right one passes."""

import pytest
from langchain_core.messages import ToolMessage

from agentkit.lab.check import messages_and_tools as check

CALL = '<tool_call>{"name": "multiply", "arguments": {"a": 6, "b": 7}}</tool_call>'


def test_a_mention_and_a_call_are_right():
    assert check.mentions_and_calls(f"A call begins with `<tool_call>`.\n{CALL}").ok
    assert check.mentions_and_calls(f"Here a <tool_call> is only a word. {CALL}").ok


@pytest.mark.parametrize(("text", "told"), [
    ("\n", "Write a raw text"),
    ("I speak of <tool_call> only.", "No call was found"),
    (CALL, "It should speak of <tool_call> as well"),
    (f"See `<tool_call>`: {CALL}{CALL}", "makes 2 calls"),
    ('`<tool_call>`\n<tool_call>{"name": "multiply", "arguments": {"a": 6}</tool_call>', "A call was refused"),
])
def test_another_text_is_told_what_it_lacks(text, told):
    verdict = check.mentions_and_calls(text)
    assert not verdict.ok and told in verdict.text


def answer(message, tools):
    by_name, results = {tool.name: tool for tool in tools}, []
    for call in message.tool_calls:
        try:
            results.append(ToolMessage(str(by_name[call["name"]].invoke(call["args"])), tool_call_id=call["id"]))
        except Exception as error:
            results.append(ToolMessage(str(error), tool_call_id=call["id"], status="error"))
    torn = [call["id"] for call in message.invalid_tool_calls]
    return results + [ToolMessage("not run", tool_call_id=id, status="error") for id in torn]


def test_a_whole_tool_node_is_right():
    assert check.answers_every_call(answer).ok


def no_id(message, tools):
    return [ToolMessage("8", tool_call_id="?") for _ in message.tool_calls]


def raises(message, tools):
    return [{tool.name: tool for tool in tools}[call["name"]].invoke(call) for call in message.tool_calls]


def backwards(message, tools):
    return answer(message, tools)[::-1]


def forgets_torn(message, tools):
    return [result for result in answer(message, tools) if result.tool_call_id != "e"]


def all_fine(message, tools):
    return [result.model_copy(update={"status": "success"}) for result in answer(message, tools)]


def all_bad(message, tools):
    return [result.model_copy(update={"status": "error"}) for result in answer(message, tools)]


def swallows(message, tools):
    return [result.model_copy(update={"content": "done"}) for result in answer(message, tools)]


@pytest.mark.parametrize(("wrong", "told"), [
    (no_id, "tool_call_id says which call"),
    (raises, "With a tool that raises your function raised ValueError"),
    (backwards, "in the same order"),
    (forgets_torn, "With a torn call in invalid_tool_calls"),
    (all_fine, "has the status 'success'"),
    (all_bad, "is marked as an error"),
    (swallows, "not what the tool returns"),
    (lambda message, tools: None, "list of ToolMessage"),
])
def test_an_unfinished_tool_node_is_told_what_it_lacks(wrong, told):
    verdict = check.answers_every_call(wrong)
    assert not verdict.ok and told in verdict.text
