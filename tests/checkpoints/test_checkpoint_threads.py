"""Threads on disk: they go on after the process has ended, even if it was killed, and run nothing that a row names."""

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time

import pytest

from agentkit.checkpoints.threads import data_folder, open_threads
from agentkit.loops.build import build_agent
from agentkit.loops.history import UNFINISHED
from agentkit.models import ScriptedChatModel
from agentkit.models.errors import AgentkitError


@pytest.fixture(autouse=True)
def own_data(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTKIT_DATA", str(tmp_path / "data"))


def _ask(question, *tape, thread="t"):
    with open_threads() as saver:
        return build_agent(model=ScriptedChatModel(list(tape)), checkpointer=saver).run(question, thread=thread)


def test_a_conversation_goes_on_and_others_are_apart():
    _ask("My name is Ana.", "Hello Ana.")
    _ask("Something else", "Yes?", thread="other")
    result = _ask("What is my name?", "Ana.")
    assert [m.text for m in result.messages] == ["My name is Ana.", "Hello Ana.", "What is my name?", "Ana."]
    assert (data_folder() / "threads.sqlite").is_file()


def test_a_turn_killed_inside_a_tool_is_repaired_before_the_next_question():
    program = textwrap.dedent("""
        import os, signal
        from langchain_core.messages import AIMessage
        from langchain_core.tools import tool
        from agentkit.checkpoints.threads import open_threads
        from agentkit.loops.build import build_agent
        from agentkit.models import ScriptedChatModel

        @tool
        def add() -> str:
            "Add."
            return "2"

        @tool
        def die() -> str:
            "Die."
            os.kill(os.getpid(), signal.SIGKILL)

        def call(name):
            return AIMessage("", tool_calls=[{"name": name, "args": {}, "id": name}])

        with open_threads() as saver:
            model = ScriptedChatModel([call("add"), call("die")])
            build_agent(model=model, tools=[add, die], checkpointer=saver).run("q", thread="t")
    """)
    ended = subprocess.run([sys.executable, "-c", program], env=os.environ, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    result = _ask("Are you there?", "Yes.")
    assert [m.text for m in result.messages[:5]] == ["q", "", "2", "", UNFINISHED]
    assert [m.text for m in result.messages[6:]] == ["Are you there?", "Yes."]


def test_two_processes_may_write_at_once():
    """Without a busy timeout the second one fails with "database is locked"."""
    program = textwrap.dedent("""
        import sys
        from agentkit.checkpoints.threads import open_threads
        from agentkit.loops.build import build_agent
        from agentkit.models import ScriptedChatModel

        print("ready", flush=True)
        with open_threads() as saver:
            agent = build_agent(model=ScriptedChatModel(["a"] * 8), checkpointer=saver)
            for n in range(8):
                assert agent.run(f"q{n}", thread=sys.argv[1]).reason == "answer"
    """)
    with open_threads() as saver:
        saver.conn.execute("BEGIN IMMEDIATE")
        running = [
            subprocess.Popen(
                [sys.executable, "-c", program, name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for name in ("t0", "t1")
        ]
        for process in running:
            assert process.stdout.readline() == "ready\n"
        time.sleep(0.7)  # both meet the lock now
        saver.conn.rollback()
    for process in running:
        errors = process.communicate(timeout=60)[1]
        assert process.returncode == 0, errors
    assert len(_ask("last", "a", thread="t1").messages) == 18


def test_a_row_that_names_a_callable_does_not_run_it(tmp_path, monkeypatch):
    import ormsgpack

    _ask("q", "a")
    mark = tmp_path / "ran"
    evil = ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb(("os", "system", f"touch {mark}"))))
    with open_threads() as saver:
        assert saver.serde.loads_typed(("msgpack", evil)) != 0
    assert not mark.exists()


def test_places_that_cannot_hold_threads_are_told_in_one_line(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AGENTKIT_DATA", str(tmp_path / "file"))
    with pytest.raises(AgentkitError, match="cannot be kept.*AGENTKIT_DATA names another"):
        _ask("q", "a")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "threads.sqlite").write_bytes(b"this is no database at all" * 100)
    monkeypatch.setenv("AGENTKIT_DATA", str(tmp_path / "data"))
    with pytest.raises(AgentkitError, match="cannot be used: file is not a database"):
        _ask("q", "a")


def test_the_connection_is_closed_afterwards():
    with open_threads() as saver:
        pass
    with pytest.raises(sqlite3.ProgrammingError):
        saver.conn.execute("select 1")
