"""A process killed inside a turn: the next one goes on at the last finished superstep and runs no finished tool again."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from langchain_core.tools import tool

from agentkit.checkpoints.threads import open_threads
from agentkit.events import StepStarted, ToolReturned, listening
from agentkit.loops.build import build_agent
from agentkit.loops.history import UNFINISHED
from agentkit.models.errors import BadField
from tests.histories import assert_valid, call
from tests.loops.conftest import GRAPH_LOOPS, Taped

# Forks one process after the other (that spares the imports). Each goes on with the thread's turn and kills itself with
# SIGKILL at the place named: inside the tool call "c", or as its n-th superstep begins. Tools leave a line in a file.
PROGRAM = r"""
import json, os, signal, sys, time
from langchain_core.tools import tool
from agentkit.checkpoints.threads import open_threads
from agentkit.events import StepStarted, listening
from agentkit.loops.build import build_agent
from tests.histories import call, calls
from tests.loops.conftest import Taped

TAPES = {
    "marks": [call("mark", name="a"), calls(("mark", {"name": "b"}), ("mark", {"name": "c"})), "all marked"],
    "same": [call("mark", name="a")] * 3,
}
loop, log, tape, *places = sys.argv[1:]

def go_on(place):
    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    @tool
    def mark(name: str) -> str:
        "Leave a mark."
        if name == place == "c":
            while "b" not in open(log).read():
                time.sleep(0.01)
            time.sleep(1)  # b's result reaches the disk
            die()
        with open(log, "a") as file:
            file.write(name + "\n")
        return f"marked {name}"

    def hear(event):
        if isinstance(event, StepStarted) and str(event.step) == place:
            die()

    with open_threads() as saver, listening(hear):
        agent = build_agent(loop, model=Taped([]), tools=[mark], checkpointer=saver)
        question = agent.unfinished("t") and "go on"
        # A real model reads the history; a tape is wound on by what the history holds.
        config = {"configurable": {"thread_id": "t"}}
        spoken = sum(m.type == "ai" for m in agent._open(config)[1])
        agent = build_agent(loop, model=Taped(TAPES[tape][spoken:]), tools=[mark], checkpointer=saver)
        return agent.run(None if question else "Mark all", thread="t").answer

answers = []
for place in places:
    reading, writing = os.pipe()
    if not (pid := os.fork()):
        os.write(writing, json.dumps(go_on(place)).encode())
        os._exit(0)
    os.close(writing)
    told, (_, status) = os.read(reading, 10000), os.waitpid(pid, 0)
    assert status in (0, signal.SIGKILL), status
    answers.append(json.loads(told) if told else None)
print(json.dumps(answers))
"""


@pytest.fixture(params=GRAPH_LOOPS, scope="module")
def loop(request):
    return request.param


@pytest.fixture(autouse=True)
def own_data(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTKIT_DATA", str(tmp_path / "data"))


def _processes(loop, folder, *places, tape="marks"):
    """Run the program; one answer for each process, None for one that was killed."""
    command = [sys.executable, "-c", PROGRAM, loop, str(folder / "log"), tape, *places]
    here = os.environ | {"PYTHONPATH": os.getcwd(), "AGENTKIT_DATA": str(folder / "data")}
    done = subprocess.run(command, env=here, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def once_killed(loop, tmp_path_factory):
    folder = tmp_path_factory.mktemp(loop)
    assert _processes(loop, folder, "c") == [None]
    return folder


@pytest.fixture
def killed_in_c(once_killed, tmp_path):
    """A thread whose turn was killed inside the tool call c."""
    shutil.copytree(once_killed / "data", tmp_path / "data")


def _marks(tmp_path):
    return (tmp_path / "log").read_text().split()


@tool
def mark(name: str) -> str:
    """Leave a mark."""
    return f"marked {name} late"


def test_killed_after_every_single_superstep_no_tool_runs_twice(loop, tmp_path):
    supersteps = 5 + (loop == "planned")
    answers = _processes(loop, tmp_path, *["2"] * (supersteps - 1), "")
    assert answers == [None] * (supersteps - 1) + ["all marked"]
    assert sorted(_marks(tmp_path)) == ["a", "b", "c"]


def test_a_turn_killed_inside_a_tool_ends_with_the_history_of_a_whole_one(killed_in_c, once_killed, scripted):
    # a was in an earlier superstep; b, in the same one as c, had its result on disk. Only c runs again.
    assert _marks(once_killed) == ["a", "b"]
    heard = []
    with open_threads() as saver:
        agent = scripted("all marked", "fine", tools=[mark], checkpointer=saver)
        assert agent.unfinished("t") == "Mark all"
        with listening(heard.append):
            result = agent.run(None, thread="t")
        assert (result.reason, result.answer, result.messages[-1].text) == ("answer", "all marked", "all marked")
        assert [m.type for m in result.messages] == ["human", "ai", "tool", "ai", "tool", "tool", "ai"]
        assert_valid(result.messages)
        assert heard[0].question == "Mark all"
        assert [e.node for e in heard if isinstance(e, StepStarted)] == ["tools", "model"]
        assert [e.content for e in heard if isinstance(e, ToolReturned)] == ["marked c late"]
        assert agent.unfinished("t") is None
        with pytest.raises(BadField, match="no unfinished turn"):
            agent.run(None, thread="t")
        assert agent.run("And now?", thread="t").answer == "fine"


def test_the_same_question_again_resumes(killed_in_c, scripted):
    with open_threads() as saver:
        result = scripted("all marked", tools=[mark], checkpointer=saver).run("Mark all", thread="t")
    assert result.answer == "all marked" and [m.text for m in result.messages].count("Mark all") == 1


def test_another_question_begins_a_new_turn_that_sees_what_was_done(killed_in_c, scripted):
    with open_threads() as saver:
        agent = scripted("fine", "still fine", tools=[mark], checkpointer=saver)
        result = agent.run("Are you there?", thread="t")
        assert_valid(result.messages)
        told = [m.text for m in result.messages]
        assert told[:6] == ["Mark all", "", "marked a", "", "marked b", UNFINISHED] and "broke off" in told[6]
        assert told[7:] == ["Are you there?", "fine"]
        assert agent.unfinished("t") is None and agent.run("And now?", thread="t").answer == "still fine"


def test_a_guard_knows_after_a_crash_what_was_called_before(tmp_path):
    assert _processes("react", tmp_path, "5", tape="same") == [None]
    with open_threads() as saver:
        tape = Taped([call("mark", name="a"), "fine"])
        agent = build_agent("react", model=tape, tools=[mark], checkpointer=saver)
        result = agent.run(None, thread="t")
        assert result.reason == "guard" and 'mark(name="a") 3 times' in result.answer
        assert_valid(result.messages)
        assert agent.run("And now?", thread="t").answer == "fine"


def test_nothing_to_resume(scripted):
    with open_threads() as saver:
        agent = scripted("never", checkpointer=saver)
        with pytest.raises(BadField, match="no unfinished turn"):
            agent.stream(None, "t")
        with pytest.raises(BadField, match="question is empty"):
            agent.stream(None)
    with pytest.raises(BadField, match="no checkpointer"):
        scripted("never").stream(None, "t")
