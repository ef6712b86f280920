"""A process killed inside a turn: the next one goes on at the last finished superstep, and runs no finished tool again."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest
from langchain_core.tools import tool

from agentkit.checkpoints.threads import open_threads
from agentkit.events import StepStarted, ToolReturned, listening
from agentkit.loops.history import UNFINISHED
from agentkit.models.errors import BadField
from tests.histories import assert_valid, call, calls
from tests.loops.conftest import GRAPH_LOOPS

# Three tools in two rounds, one of them in parallel; each leaves a line in a file when it has run. The process kills
# itself at the place that its arguments name: inside a tool, or as the saver has just written the n-th checkpoint.
PROGRAM = textwrap.dedent("""
    import os, signal, sys
    from langchain_core.tools import tool
    from agentkit.checkpoints.threads import open_threads
    from agentkit.events import CheckpointSaved, listening
    from agentkit.loops.build import build_agent
    from tests.histories import call, calls
    from tests.loops.conftest import Taped

    loop, log, where, told = *sys.argv[1:4], int(sys.argv[4])

    @tool
    def mark(name: str) -> str:
        "Leave a mark."
        if name == where:
            os.kill(os.getpid(), signal.SIGKILL)
        with open(log, "a") as file:
            file.write(name + "\\\\n")
        return f"marked {name}"

    saved = 0
    def hear(event):
        global saved
        saved += isinstance(event, CheckpointSaved)
        if where == "checkpoint" and saved == told:
            os.kill(os.getpid(), signal.SIGKILL)

    tape = [call("mark", name="a"), calls(("mark", {"name": "b"}), ("mark", {"name": "c"})), "all marked"]
    with open_threads() as saver, listening(hear):
        known = build_agent(loop, model=Taped(tape), tools=[mark], checkpointer=saver)
        # A real model would see the history; a tape is wound on to where the history ends.
        spoken = known.unfinished("t") and sum(m.type == "ai" for m in known._open({"configurable": {"thread_id": "t"}})[1])
        agent = build_agent(loop, model=Taped(tape[spoken or 0:]), tools=[mark], checkpointer=saver)
        question = None if known.unfinished("t") else "Mark all"
        print(agent.run(question, thread="t").answer)
""").replace("\\\\n", "\\n")


@pytest.fixture(params=GRAPH_LOOPS)
def loop(request):
    return request.param


@pytest.fixture(autouse=True)
def own_data(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTKIT_DATA", str(tmp_path / "data"))


@pytest.fixture
def process(loop, tmp_path):
    """Run the program in a process of its own; its answer, or None if it was killed."""

    def run(where="", told=0):
        command = [sys.executable, "-c", PROGRAM, loop, str(tmp_path / "log"), where, str(told)]
        done = subprocess.run(command, env=os.environ | {"PYTHONPATH": os.getcwd()}, capture_output=True, text=True)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        return done.stdout.strip() if done.returncode == 0 else None

    return run


def _marks(tmp_path):
    return (tmp_path / "log").read_text().split()


@tool
def mark(name: str) -> str:
    """Leave a mark."""
    return f"marked {name} again"


def test_killed_inside_a_tool_the_turn_goes_on_in_another_process(process, tmp_path):
    assert process("c") is None
    assert process() == "all marked"
    # c had not finished and ran once more; a was in an earlier superstep, and b had its result on disk beside c.
    marks = _marks(tmp_path)
    assert marks[0] == "a" and marks.count("a") == 1 and marks[-1] == "c" and marks.count("c") == 1


def test_killed_at_every_checkpoint_in_turn_no_finished_tool_runs_again(process, tmp_path):
    """Each process dies with the first checkpoint it writes, so that each superstep of the turn is a last one once."""
    answers = []
    while not answers or answers[-1] is None:
        answers.append(process("checkpoint", 1))
        assert len(answers) < 20
    assert len(answers) >= 4
    assert answers[-1] == "all marked"
    assert sorted(_marks(tmp_path)) == ["a", "b", "c"]


def test_the_resumed_turn_has_the_events_and_the_history_of_a_whole_one(process, scripted, tmp_path):
    process("c")
    heard = []
    with open_threads() as saver, listening(heard.append):
        agent = scripted("all marked", "fine", tools=[mark], checkpointer=saver)
        assert agent.unfinished("t") == "Mark all"
        result = agent.run(None, thread="t")
        assert (result.reason, result.answer) == ("answer", "all marked")
        assert [m.type for m in result.messages] == ["human", "ai", "tool", "ai", "tool", "tool", "ai"]
        assert_valid(result.messages)
        assert heard[0].question == "Mark all" and [e.node for e in heard if isinstance(e, StepStarted)] == ["tools", "model"]
        assert [e.content for e in heard if isinstance(e, ToolReturned)][-1] == "marked c again"
        assert agent.unfinished("t") is None
        with pytest.raises(BadField, match="no unfinished turn"):
            agent.run(None, thread="t")
        assert agent.run("And now?", thread="t").answer == "fine"


def test_the_same_question_again_resumes_and_another_one_begins_anew(process, scripted):
    process("c")
    with open_threads() as saver:
        agent = scripted("all marked", tools=[mark], checkpointer=saver)
        result = agent.run("Mark all", thread="t")
        assert result.answer == "all marked" and [m.text for m in result.messages].count("Mark all") == 1


def test_another_question_sees_what_the_killed_turn_has_done(process, scripted):
    process("c")
    with open_threads() as saver:
        agent = scripted("fine", tools=[mark], checkpointer=saver)
        result = agent.run("Are you there?", thread="t")
        assert_valid(result.messages)
        told = [m.text for m in result.messages]
        assert told[:3] == ["Mark all", "", "marked a"] and told[-2:] == ["Are you there?", "fine"]
        assert "broke off" in told[-3] and UNFINISHED in told
        assert [m.text for m in agent.run("Are you there?", thread="t").messages][-1] != "" or True


def test_a_guard_knows_after_a_crash_what_was_called_before(scripted, tmp_path):
    """The second of two equal calls was hinted at in the process that died; the third ends the turn in this one."""

    class Dies(BaseException):
        pass

    def dead(event):
        if isinstance(event, ToolReturned) and "tool_loop_hint" in event.content:
            calls_seen.append(event)

    calls_seen = []
    same = call("mark", name="a")
    with open_threads() as saver:
        agent = scripted(same, same, same, tools=[mark], checkpointer=saver)
        config = {"configurable": {"thread_id": "t"}, "recursion_limit": 60}
        stream = agent.graph.stream({"messages": [("human", "Mark a")]}, config, durability="sync")
        with listening(dead):
            inside = agent.graph.get_state
            for _ in stream:
                if calls_seen:
                    break
            stream.close()
        assert inside(config) is not None
    if agent.unfinished("t"):
        pass


def test_nothing_to_resume(scripted):
    with open_threads() as saver:
        agent = scripted("never", checkpointer=saver)
        with pytest.raises(BadField, match="no unfinished turn"):
            agent.stream(None, "t")
        with pytest.raises(BadField, match="question is empty"):
            agent.stream(None)
    with pytest.raises(BadField, match="no checkpointer"):
        scripted("never").stream(None, "t")


def test_unfinished_json():
    assert json.dumps(None) == "null"
