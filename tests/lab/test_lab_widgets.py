"""Panels and checks of lesson 00, outside a kernel: widgets are real, and bytes to the front end are counted."""

import threading

import comm
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from agentkit.lab import Predict, RunPanel, predict, timeline, versions
from agentkit.lab.check import start
from agentkit.loops import build_agent
from agentkit.loops.result import RunResult
from agentkit.models import ScriptedChatModel, Step
from agentkit.models.errors import BadField
from agentkit.tools import tools_for

CALL = AIMessage("", tool_calls=[{"name": "calculator", "args": {"expression": "23*19"}, "id": "1"}])


def scripted(*tape):
    return lambda profile: build_agent("lite", model=ScriptedChatModel(list(tape)), tools=tools_for(["calculator"]), profile=profile)


def result(*messages, answer=""):
    return RunResult(answer, list(messages), "answer", {}, 0.0)


def test_a_run_shows_call_result_and_answer_and_gives_the_result():
    panel = RunPanel(scripted(CALL, "It is 437."), question="What is 23 times 19?")
    assert panel.result is None
    done = panel.ask()
    assert (done.reason, done.answer) == ("answer", "It is 437.")
    for shown in ("calculator(expression=&#x27;23*19&#x27;)", "437", "It is 437.", "ended: answer"):
        assert shown in panel.view.value
    assert panel.result is done and not panel.run_button.disabled and panel.stop_button.disabled


def test_the_run_button_returns_at_once_and_stop_ends_a_busy_run():
    panel = RunPanel(scripted(Step(AIMessage("word " * 500), delay=60)), question="talk")
    panel.run_button.click()
    assert panel.run_button.disabled and not panel.stop_button.disabled
    panel.stop_button.click()
    panel._worker.join(30)
    assert panel.result.reason == "cancel" and "ended: cancel" in panel.view.value


def test_a_second_click_while_running_starts_nothing():
    panel = RunPanel(scripted(Step(AIMessage("slow"), delay=60)), question="talk")
    panel.start()
    first = panel._worker
    panel.start()
    assert panel._worker is first
    panel.stop()
    first.join(30)


def test_bad_input_is_shown_and_the_panel_stays_usable():
    panel = RunPanel(scripted("fine"), question="  ")
    panel.ask()
    assert "the question is empty" in panel.view.value and not panel.run_button.disabled
    assert panel.ask("again").answer == "fine"


def test_the_temperature_of_the_slider_reaches_the_agent():
    seen = []

    def agent_for(profile):
        seen.append(profile.temperature)
        return scripted("ok")(profile)

    panel = RunPanel(agent_for, question="q")
    panel.temperature.set_state({"value": 1.5})
    panel.ask()
    assert seen == [1.5]


def test_markup_in_a_model_s_text_is_shown_as_text():
    panel = RunPanel(scripted("<img src=x onerror=alert(1)>"), question="q")
    panel.ask()
    assert "<img" not in panel.view.value and "&lt;img" in panel.view.value


def test_2000_tokens_send_a_bounded_number_of_bytes(monkeypatch):
    sent = []

    class Counting(comm.base_comm.BaseComm):
        def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys):
            sent.append(len(str(data)))

    monkeypatch.setattr(comm, "create_comm", lambda *args, **kwargs: Counting(*args, **kwargs))
    panel = RunPanel(scripted("word " * 2000), question="q")
    sent.clear()
    panel.ask()
    assert panel.view.value.count("word") == 2000
    assert 0 < sum(sent) < 2_000_000


def test_an_unknown_prediction_is_named():
    with pytest.raises(BadField, match="lesson 'x' is unknown; known are start"):
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


def test_the_panel_prints_nothing(capsys):
    threads = threading.active_count()
    RunPanel(scripted("quiet"), question="q").ask()
    out, err = capsys.readouterr()
    assert (out, err) == ("", "") and threading.active_count() <= threads + 1
