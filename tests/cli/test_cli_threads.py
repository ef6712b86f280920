"""`agentkit threads`: what a person sees and can put right."""

import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from agentkit.checkpoints.saver import AgentkitSaver
from agentkit.checkpoints.threads import open_threads
from agentkit.cli.main import main
from agentkit.loops.build import build_agent
from agentkit.models import ScriptedChatModel


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A store with two conversations, named by AGENTKIT_STORE."""
    monkeypatch.setenv("AGENTKIT_STORE", str(tmp_path / "store"))
    for thread in ("ferry", "sums"):
        with open_threads() as saver:
            assert isinstance(saver, AgentkitSaver)
            build_agent("lite", model=ScriptedChatModel([f"{thread} it is"]), checkpointer=saver).run("q", thread=thread)
    return tmp_path / "store"


def _json(capsys, *words):
    code = main(["threads", "--json", *words])
    return code, json.loads(capsys.readouterr().out or "null")


def test_list_and_show(folder, capsys):
    _, rows = _json(capsys, "list")
    assert [(row["thread"], row["messages"]) for row in rows] == [("sums", 2), ("ferry", 2)]
    _, rows = _json(capsys, "show", "ferry", "--limit", "2")
    assert [row["messages"] for row in rows] == [2, 1] and rows[1]["next"] == "model" and rows[0]["line"] == "main"
    assert main(["threads", "show", "nobody"]) == 2
    assert "thread 'nobody' does not exist" in capsys.readouterr().err
    assert main(["threads", "list"]) == 0
    assert "ferry" in capsys.readouterr().out


def test_verify_repair_and_the_exit_codes(folder, capsys):
    assert _json(capsys, "verify")[0] == 0
    path = next(folder.glob("ferry*/head.0"))
    data = bytearray(path.read_bytes())
    data[1000] ^= 4
    path.write_bytes(data)
    newer = path.with_name("head.1").read_bytes()[:8] < bytes(data[:8])
    code, rows = _json(capsys, "verify")
    assert (code, [row["thread"] for row in rows if row["problems"]] != []) == ((1, True) if newer else (0, False))
    code, rows = _json(capsys, "repair", "--yes")
    assert code == 0 and len(rows) == newer
    assert _json(capsys, "verify")[0] == 0


def test_export_import_and_prune(folder, capsys, tmp_path):
    file = str(tmp_path / "ferry.akt")
    assert main(["threads", "export", "ferry", file]) == 0
    assert main(["threads", "export", "ferry", file]) == 2
    assert "cannot be written: File exists" in capsys.readouterr().err
    assert main(["threads", "import", file]) == 2
    assert "exists already" in capsys.readouterr().err
    assert _json(capsys, "import", file, "--as", "boat")[1] == [{"thread": "boat"}]
    assert main(["threads", "prune", "boat", "nobody"]) == 2
    capsys.readouterr()
    assert main(["threads", "prune", "boat"]) == 0
    assert len(_json(capsys, "show", "boat")[1]) == 1
    assert main(["threads", "prune", "boat", "--delete"]) == 0
    assert [row["thread"] for row in _json(capsys, "list")[1]] == ["sums", "ferry"]


def test_threads_of_the_usual_file_move_over(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("AGENTKIT_STORE", raising=False)
    monkeypatch.setenv("AGENTKIT_DATA", str(tmp_path))
    with open_threads() as saver:
        build_agent("lite", model=ScriptedChatModel(["a"]), checkpointer=saver).run("q", thread="old")
    assert _json(capsys, "import", str(tmp_path / "threads.sqlite"))[1] == [{"thread": "old"}]
    monkeypatch.setenv("AGENTKIT_STORE", str(tmp_path / "threads"))
    with open_threads() as saver:
        found = build_agent("lite", model=ScriptedChatModel(["b"]), checkpointer=saver).run("r", thread="old").messages
    assert [type(m) for m in found] == [HumanMessage, AIMessage] * 2


def test_migrate_takes_the_users_code(folder, tmp_path, capsys):
    code = tmp_path / "changes.py"
    code.write_text("from agentkit.checkpoints.migrations import migration\nSCHEMA = 2\n"
                    "@migration(1, 2)\ndef topic(state):\n    return {**state, 'topic': ''}\nMIGRATIONS = [topic]\n")
    _, rows = _json(capsys, "migrate", "--with", str(code), "--dry-run")
    assert [(row["thread"], row["new"]) for row in rows] == [("ferry", "topic"), ("sums", "topic")]
    assert main(["threads", "migrate", "--with", str(code)]) == 0
    capsys.readouterr()
    assert main(["threads", "list"]) == 2
    assert "written under schema version 2, this code knows 1" in capsys.readouterr().err
    code.write_text("SCHEMA = 2")
    assert main(["threads", "migrate", "--with", str(code)]) == 2
    assert "has to define SCHEMA" in capsys.readouterr().err
