"""Predictions, timelines and the checks of lesson 00."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from agentkit.lab import Predict, predict, timeline, versions
from agentkit.lab.check import start
from agentkit.loops.result import RunResult
from agentkit.models.errors import BadField

CALL = AIMessage("", tool_calls=[{"name": "calculator", "args": {"expression": "23*19"}, "id": "1"}])


def result(*messages, answer=""):
    return RunResult(answer, list(messages), "answer", {}, 0.0)


def test_an_unknown_prediction_is_named():
    with pytest.raises(BadField, match="lesson 'x' is unknown; known are .*start"):
        predict("x: y")
    with pytest.raises(BadField, match="lesson start has a sum without tools"):
        predict("start: y")


def test_predict_gives_nothing_away_before_a_choice():
    question = Predict("Which?", ["a", "b"], right=1, why="Because.")
    assert question.reveal() == "Choose an answer above first, then run this cell again."
    question.choice.value = "a"
    assert question.reveal() == "Not quite: b. Because."
    question.choice.value = "b"
    assert question.reveal() == "Yes. Because."


def test_a_prediction_reads_whole_without_a_kernel():
    shown = Predict("Which <b>?" + "x" * 200, ["one", "two & a half"], right=1, why="Because.")._repr_mimebundle_()
    assert shown["text/plain"].splitlines()[1:] == ["  ( ) one", "  ( ) two & a half"]
    assert "Which &lt;b&gt;?" in shown["text/html"] and "<li>two &amp; a half</li>" in shown["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in shown


def test_timeline_marks_errors_and_refused_calls():
    refused = AIMessage("", invalid_tool_calls=[{"name": "f", "args": "{", "id": "2", "error": "cut by the token limit", "type": "invalid_tool_call"}])
    shown = timeline([HumanMessage("สวัสดี <b>"), CALL, ToolMessage("bad", tool_call_id="1", status="error"), refused])
    assert repr(shown).splitlines() == [
        "      you | สวัสดี <b>", '     call | calculator(expression="23*19")', "    error | bad", "  refused | cut by the token limit: {"]
    assert "<b>" not in shown._repr_html_()


@pytest.mark.parametrize("run, says", [
    (None, "Write a question"),
    (result(HumanMessage("q"), AIMessage("437")), "answered from memory and called nothing"),
    (result(HumanMessage("q"), CALL, ToolMessage("437", tool_call_id="1", name="calculator")), "it called calculator"),
])
def test_check_call_fails_wrong_answers_and_says_what_to_look_at(run, says):
    verdict = start.called(run, "read_file", "Aurelia")
    assert says in verdict.text and not verdict.ok


def test_check_call_tells_a_failed_tool_and_an_unused_result_from_success():
    failed = ToolMessage("no such file", tool_call_id="1", name="calculator", status="error")
    fine = ToolMessage("437", tool_call_id="1", name="calculator")
    assert "failed with 'no such file'" in start.called(result(CALL, failed, answer="?"), "calculator", "437").text
    assert "does not say '437'" in start.called(result(CALL, fine, answer="no idea"), "calculator", "437").text
    assert start.called(result(CALL, fine, answer="It is 437."), "calculator", "437").ok


def test_check_cut_wants_a_begun_and_refused_call():
    refused = AIMessage("", invalid_tool_calls=[{"name": None, "args": "<tool_call>", "id": "2", "error": "cut", "type": "invalid_tool_call"}])
    assert start.cut(None).text.startswith("Put the")
    assert "Allow fewer tokens" in start.cut(CALL).text
    assert "a few more tokens" in start.cut(AIMessage("")).text
    assert start.cut(refused).ok


def test_versions_name_the_locked_libraries():
    line = versions()
    assert [part.split(" ")[0] for part in line.split(" · ")] == ["agentkit", "mlx", "mlx-lm", "langgraph", "langchain-core"]
