"""The Faults panel sets the workbench's next fault, and tells from events alone what became of it."""

import pytest

from agentkit.lab import Recording, Workbench
from agentkit.lab.faults import KINDS, Fault
from agentkit.lab.faults_panel import NAMES
from agentkit.models import ScriptedChatModel
from agentkit.tools import tools_for
from tests.histories import call


def bench(*tape, loop="lite"):
    return Workbench(ScriptedChatModel(list(tape)), tools_for(["calculator", "create_plan"]), loop, question="What is 23 times 19?")


SUM, OTHER = call("calculator", expression="23*19"), call("calculator", expression="19*23")


def test_every_fault_can_be_chosen():
    assert set(NAMES.values()) == set(KINDS)
    panel = bench("x").faults_panel
    for name, kind in NAMES.items():
        panel.kind.label = name
        assert panel.fault.kind == kind
        shown = [w.description for w in (panel.tool, panel.seconds, panel.tokens) if w.layout.display != "none"]
        assert shown == ["tool"] * (KINDS[kind].on == "tool") + [KINDS[kind].field] * bool(KINDS[kind].field)


def test_the_switch_injects_into_the_next_run_and_off_means_off():
    workbench = bench(SUM, OTHER, "It is 437.", SUM, "It is 437.")
    panel = workbench.faults_panel
    panel.kind.value, panel.tool.value, panel.times.value = "raises", "calculator", 1
    assert workbench.fault is None and "Not injected" in panel.line.value
    panel.switch.value = True
    assert workbench.fault == Fault("raises", "calculator", times=1)
    assert "Injected into the next run" in panel.line.value and "calculator raises an exception. Once." in panel.line.value
    assert workbench.ask().reason == "answer"
    assert panel.text() == (
        " injected | calculator raised an exception\n"
        "    error | calculator: Error: ConnectionError: the server closed the connection\n"
        "   answer | It is 437.\nended: answer")
    panel.switch.value = False
    workbench.ask()
    assert panel.text() == "   answer | It is 437.\nended: answer"


def test_a_recording_tells_the_same_in_another_bench(tmp_path):
    workbench = bench(call("plan", kind="simple", steps=[]), SUM, loop="react")
    workbench.fault = Fault("repeats")
    text = workbench.faults_panel.text()
    assert text == "Nothing has run yet."
    assert workbench.ask().reason == "guard"
    text = workbench.faults_panel.text()
    assert text.count("injected |") == 2 and "hint | repeated_call" in text and text.endswith("ended: guard")
    path = workbench.recording().save(tmp_path / "run.jsonl")
    other = bench("x")
    other.replay(Recording.open(path))
    assert other.faults_panel.text() == text == repr(other.faults_panel.still())
    assert other.graph_panel.text() == workbench.graph_panel.text()


def test_a_fault_set_in_a_cell_is_the_one_shown():
    workbench = bench(SUM, "ok")
    panel = workbench.faults_panel
    workbench.fault = Fault("slow", seconds=0.01)
    workbench.ask()
    assert "Every tool waits 0.01 seconds" in panel.line.value and "Injected" in panel.line.value


def test_a_tool_that_is_switched_off_can_no_longer_be_chosen():
    workbench = bench("x")
    panel = workbench.faults_panel
    panel.tool.value, panel.switch.value = "create_plan", True
    workbench.settings.tools = ("calculator",)
    assert list(panel.tool.options) == ["every tool", "calculator"] and workbench.fault.tool is None


@pytest.mark.parametrize("text", ["<img src=x onerror=alert(1)>"])
def test_markup_in_a_tools_name_or_an_answer_is_text(text):
    workbench = bench(text)
    workbench.fault = Fault("raises", tool=None)
    workbench.ask()
    assert "<img" not in workbench.faults_panel.still()._repr_html_() and text in workbench.faults_panel.text()
    workbench.fault = Fault("raises", tool=text)
    workbench.faults_panel.begin(None)
    assert "<img" not in workbench.faults_panel.line.value
