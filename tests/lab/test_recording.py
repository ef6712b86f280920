"""Recordings: saved, opened, replayed into the same panels, and damaged in every way a file is damaged."""

import json
import os
import threading

import pytest
from langchain_core.messages import AIMessage

from agentkit.events import RunEnded, RunStarted, Token
from agentkit.lab import Recording, Workbench
from agentkit.lab.workbench import PANELS
from agentkit.models import ScriptedChatModel, Step
from agentkit.models.errors import AgentkitError
from agentkit.tools import tools_for

CALL = AIMessage("ดูก่อน", tool_calls=[{"name": "calculator", "args": {"expression": "23*19", "of": [1, {"é": None}]}, "id": "1"}])
ENDINGS = {
    "answer": [CALL, "It is 437.\u2028Next\u0085line"],
    "guard": [CALL] * 5,
    "error": [CALL, ConnectionError("gone")],
    "surrogate": ["half \ud83d pair"],
    "thought": [AIMessage("437", additional_kwargs={"reasoning_content": "23*19, well"})],
}


def bench_of(tape, loop="lite"):
    return Workbench(ScriptedChatModel(list(tape)), tools_for(["calculator"]), loop, question="What is <b>23</b> × 19?")


def texts(bench):
    return [(panel.text(), panel.still()._repr_html_()) for panel in map(bench.panel, PANELS)]


@pytest.mark.parametrize("loop", ["lite", "planned", "react", "handmade"])
@pytest.mark.parametrize("tape", ENDINGS.values(), ids=ENDINGS)
def test_a_replayed_run_looks_byte_for_byte_as_it_did(loop, tape, tmp_path):
    bench = bench_of(tape, loop)
    bench.panels()
    bench.ask()
    live, recording = texts(bench), bench.recording()
    opened = Recording.open(recording.save(tmp_path / "run.jsonl"))
    assert opened.events == recording.events and opened.header == recording.header
    for again in (recording, opened):
        bench.replay(again)
        assert texts(bench) == live
    other = bench_of(["x"])
    other.panels()
    other.ask("something else")
    other.replay(opened)
    assert texts(other) == live and other.recording().events == opened.events
    late = bench_of(["x"])
    late.replay(opened)
    assert texts(late) == live


def test_a_replay_keeps_the_pace_it_is_given_and_can_be_stopped():
    events = [RunStarted(loop="lite", model="m", question="q", at=0.0), Token(text="now", at=0.0),
              Token(text="in an hour", at=3600.0), RunEnded(reason="answer", answer="nowin an hour", usage={}, at=3600.0)]
    bench, first = bench_of(["x"]), threading.Event()

    class View:
        def take(self, event):
            if isinstance(event, Token):
                first.set()

        def flush(self):
            pass

    bench.stage.join(View(), None, [])
    panel = bench.run_panel
    bench.replay(Recording(events), speed=1.0)
    assert first.wait(60) and bench.phase == "replaying" and bench.start() is False
    panel.stop_button.click()
    assert bench.wait(60) and panel.text() == "    model | now"
    bench.replay(Recording(events), speed=1e9)
    assert bench.wait(60) and panel.text().startswith("    model | nowin an hour\n")


def test_the_file_says_what_it_holds_and_is_written_whole_or_not_at_all(tmp_path):
    bench = bench_of([CALL, "437"])
    bench.ask()
    path = tmp_path / "run.jsonl"
    recording = bench.recording()
    assert recording.save(str(path)) == path
    lines = path.read_bytes().decode().split("\n")
    header = json.loads(lines[0])
    assert (header["agentkit_recording"], header["loop"], header["model"]) == (1, "lite", "scripted")
    assert header["events"] == len(lines) - 2 == len(recording.events) and "langgraph" in header["versions"]
    assert [node["id"] for node in header["graph"]["nodes"]] == ["__start__", "model", "tools", "__end__"]
    assert "ดูก่อน" in path.read_text(encoding="utf-8")
    assert repr(recording).startswith("Recording(loop='lite', model='scripted', question='What is <b>23")

    path.chmod(0o444)
    with pytest.raises(AgentkitError, match="cannot be written to .*missing"):
        recording.save(tmp_path / "missing" / "run.jsonl")
    with pytest.raises(AgentkitError, match="cannot be written"):
        recording.save(tmp_path)
    assert os.listdir(tmp_path) == ["run.jsonl"] and len(Recording.open(path).events) == header["events"]


def test_a_value_that_json_does_not_know_is_recorded_as_text(tmp_path):
    strange = RunStarted(loop="l", model="m", question="q")
    ended = RunEnded(reason="answer", answer="", usage={"path": tmp_path, "nan": float("nan")})
    opened = Recording.open(Recording([strange, ended]).save(tmp_path / "r"))
    assert opened.events[1].usage["path"] == str(tmp_path)


@pytest.fixture
def good(tmp_path):
    bench = bench_of([CALL, "It is 437."])
    bench.ask()
    return bench.recording().save(tmp_path / "run.jsonl")


def line(number, change):
    """Damage one line (counted from 1)."""
    def damage(data):
        lines = data.split(b"\n")
        lines[number - 1] = change(lines[number - 1])
        return b"\n".join(lines)
    return damage


def field(number, **fields):
    def change(text):
        data = json.loads(text) | fields
        return json.dumps({key: value for key, value in data.items() if value is not ...}).encode()
    return line(number, change)


DAMAGE = {
    "empty": (lambda data: b"", "line 1: "),
    "no text": (lambda data: data[:40] + b"\xff" + data[40:], "line 1: not text in UTF-8"),
    "no text further on": (line(4, lambda text: text + b"\xfe"), "line 4: not text in UTF-8"),
    "another file": (lambda data: b'{"cells": []}\n', "line 1: no header"),
    "header torn": (line(1, lambda text: text[:50]), "line 1: no header"),
    "newer": (field(1, agentkit_recording=2), r"line 1: format 2 is newer than this agentkit reads \(1\); update"),
    "no version": (field(1, agentkit_recording="one"), "line 1: format 'one' is not a version"),
    "no question": (field(1, question=...), "line 1: question is missing"),
    "odd graph": (field(1, graph=[1]), "line 1: graph is missing or of the wrong kind"),
    "cut in a line": (lambda data: data[:-9], r"line \d+: the line has no end; the file was cut off"),
    "last lines lost": (lambda data: b"\n".join(data.split(b"\n")[:-4]) + b"\n", "its header says"),
    "middle lines lost": (lambda data: b"\n".join(data.split(b"\n")[:3] + data.split(b"\n")[5:]), "its header says"),
    "first event lost": (lambda data: b"\n".join([field(1, events=1)(data).split(b"\n")[0], data.split(b"\n")[2], b""]),
                         "line 2: the first event is not RunStarted"),
    "blank line": (line(3, lambda text: b""), "line 3: not JSON"),
    "torn line": (line(3, lambda text: text[:-3]), "line 3: not JSON"),
    "a list": (line(3, lambda text: b"[1, 2]"), r"line 3: not an event: \[1, 2\]"),
    "deep": (line(3, lambda text: b"[" * 100_000), "line 3: not JSON"),
    "unknown event": (field(3, event="Thunder"), "line 3: event 'Thunder' is unknown; known are RunStarted, "),
    "unknown field": (field(3, colour="red"), "line 3: StepStarted has no field 'colour'"),
    "field lost": (field(3, node=...), "line 3: StepStarted has no node"),
    "time lost": (field(3, at=...), "line 3: StepStarted has no at"),
    "wrong kind": (field(3, step="first"), "line 3: StepStarted.step is 'first', not int"),
    "truth for a number": (field(3, step=True), "line 3: StepStarted.step is 'True', not int"),
}


@pytest.mark.parametrize("damage, says", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_refused_with_its_name_and_line(good, damage, says):
    good.write_bytes(damage(good.read_bytes()))
    with pytest.raises(AgentkitError, match=rf"run\.jsonl, .*{says}") as refused:
        Recording.open(good)
    assert "\n" not in str(refused.value)


def test_every_place_a_file_can_be_cut_at_is_noticed(good):
    data = good.read_bytes()
    for end in range(0, len(data), 97):
        good.write_bytes(data[:end])
        with pytest.raises(AgentkitError, match="run.jsonl, line"):
            Recording.open(good)


def test_what_is_no_file_is_named(tmp_path):
    with pytest.raises(AgentkitError, match="nothing.jsonl cannot be read: No such file"):
        Recording.open(tmp_path / "nothing.jsonl")
    with pytest.raises(AgentkitError, match="begins with RunStarted"):
        Recording([Token(text="x")])


def test_a_stopped_run_can_be_recorded(tmp_path):
    bench = bench_of([Step(AIMessage("x"), delay=600)])
    bench.panels()
    bench.start()
    bench.stop()
    assert bench.wait(60)
    before = texts(bench)
    opened = Recording.open(bench.recording().save(tmp_path / "r"))
    bench.replay(opened)
    assert texts(bench) == before and opened.ended.reason == "cancel" and opened.seconds >= 0
