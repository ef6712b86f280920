"""The saver under LangGraph: it does what SqliteSaver does, stores history once, and loads only what is allowed."""

import asyncio
import dataclasses
import operator
import os
import random
import sqlite3
import string
from typing import Annotated, TypedDict

import ormsgpack
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt

from agentkit.checkpoints.errors import CannotStore, ClassRefused, StoreUnavailable
from agentkit.checkpoints.saver import AgentkitSaver
from agentkit.checkpoints.stores import open_store
from agentkit.events import listening
from agentkit.loops.build import build_agent
from agentkit.models import ScriptedChatModel
from agentkit.models.errors import BadField

CONFIG = {"configurable": {"thread_id": "t"}}


@pytest.fixture
def saver(store):
    return AgentkitSaver(store)


def chat(saver, reply=lambda state: {"messages": [AIMessage(f"answer {len(state['messages'])}")]}):
    builder = StateGraph(MessagesState)
    builder.add_node("model", reply)
    builder.add_edge(START, "model")
    return builder.compile(checkpointer=saver)


class Tally(TypedDict):
    asked: list[int]
    total: Annotated[list[int], operator.add]
    word: str


def fan_out(saver):
    """A map-reduce with Send, then a node that asks a person."""
    builder = StateGraph(Tally)
    builder.add_node("square", lambda task: {"total": [task["n"] ** 2]})
    builder.add_node("ask", lambda state: {"word": interrupt(sum(state["total"]))})
    builder.add_conditional_edges(START, lambda state: [Send("square", {"n": n}) for n in state["asked"]], ["square"])
    builder.add_edge("square", "ask")
    builder.add_edge("ask", END)
    return builder.compile(checkpointer=saver)


def _story(saver):
    """Sends, an interrupt, its answer, time travel, a fork and an edit: everything that a history then says."""
    graph = fan_out(saver)
    told = [graph.invoke({"asked": [1, 2, 3]}, CONFIG)]
    told.append([(t.name, [i.value for i in t.interrupts]) for t in graph.get_state(CONFIG).tasks])
    told.append(graph.invoke(Command(resume="yes"), CONFIG))
    history = list(graph.get_state_history(CONFIG))
    waiting = next(s for s in history if s.next == ("ask",))
    told.append(graph.invoke(Command(resume="no"), waiting.config))
    edited = graph.update_state(waiting.config, {"total": [100]})
    told.append(graph.invoke(None, edited))
    told.append(graph.invoke(Command(resume="third"), CONFIG))
    told.append([(s.values, s.next, s.metadata["source"], s.metadata["step"], len(s.tasks)) for s in
                 graph.get_state_history(CONFIG)])
    return [{k: v for k, v in part.items() if k != "__interrupt__"} if isinstance(part, dict) else part for part in told]


def test_sends_interrupts_time_travel_and_forks_are_as_with_sqlite(saver, tmp_path):
    """langchain-ai/langgraph#6789: Send objects could not be checkpointed."""
    db = sqlite3.connect(tmp_path / "reference.sqlite", check_same_thread=False)
    assert _story(saver) == _story(SqliteSaver(db))
    db.close()


def test_a_conversation_goes_on_in_another_process(place):
    saver = AgentkitSaver(open_store(place[0], **place[1]))
    chat(saver).invoke({"messages": [HumanMessage("one")]}, CONFIG)
    again = saver if place[0] == "memory:" else AgentkitSaver(open_store(place[0], **place[1]))
    texts = [m.text for m in chat(again).invoke({"messages": [HumanMessage("two")]}, CONFIG)["messages"]]
    assert texts == ["one", "answer 1", "two", "answer 3"]
    assert again.threads() == ["t"]


def test_async_is_the_same(saver):
    async def talk():
        graph = chat(saver)
        for word in ("one", "two"):
            await graph.ainvoke({"messages": [HumanMessage(word)]}, CONFIG)
        return [state async for state in graph.aget_state_history(CONFIG, limit=3)], await graph.aget_state(CONFIG)

    history, state = asyncio.run(talk())
    assert len(history) == 3 and len(state.values["messages"]) == 4


def test_a_long_history_is_whole_after_many_segments(saver):
    graph = chat(saver)
    for number in range(70):
        graph.invoke({"messages": [HumanMessage(f"q{number}")]}, CONFIG)
    log = saver.thread("t").log()
    assert len(log.index) >= 1 and log.newest("").values["messages"][0] == "r"  # part of the list lies in a rope
    fresh = AgentkitSaver(saver.store)
    history = list(chat(fresh).get_state_history(CONFIG))
    assert len(history) == 210
    assert [len(s.values.get("messages", [])) for s in history[:3]] == [140, 139, 138]
    for state in history[::29]:
        assert chat(fresh).get_state(state.config).values == state.values
    messages = history[0].values["messages"]
    assert [m.text for m in messages[::2]] == [f"q{n}" for n in range(70)]
    old = next(s for s in history if len(s.values.get("messages", [])) == 11 and s.next)
    assert len(chat(fresh).invoke(None, old.config)["messages"]) == 12


def test_history_is_stored_once(tmp_path):
    """A thousand messages of 200 characters; SqliteSaver needs 297 MB. Texts are random, so they do not compress away."""
    letters = random.Random(1)
    text = lambda: "".join(letters.choices(string.ascii_lowercase + " ", k=200))  # noqa: E731
    sizes = {}
    graph = chat(AgentkitSaver(tmp_path), lambda state: {"messages": [AIMessage(text())]})
    messages = 0
    for goal in (100, 200):
        while messages < goal:
            graph.invoke({"messages": [HumanMessage(text())]}, CONFIG)
            messages += 2
        sizes[goal] = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert sizes[200] < 200 * 4e6 / 1000 and sizes[200] < 2.2 * sizes[100]


@dataclasses.dataclass
class Plan:
    steps: list


class Holds(TypedDict):
    a: object


def holder(saver, value):
    builder = StateGraph(Holds)
    builder.add_node("n", lambda state: {"a": value})
    builder.add_edge(START, "n")
    return builder.compile(checkpointer=saver)


def test_own_classes_are_refused_unless_allowed(store):
    holder(AgentkitSaver(store), Plan(["x"])).invoke({"a": 1}, CONFIG)
    with pytest.raises(ClassRefused, match=r"channel 'a' names .*Plan, which is not on the allow list"):
        AgentkitSaver(store).get_tuple(CONFIG)
    found = AgentkitSaver(store, allow=[Plan]).get_tuple(CONFIG)
    assert found.checkpoint["channel_values"]["a"] == Plan(["x"])


@pytest.mark.parametrize("permissive", [False, True])
def test_a_row_that_names_a_command_is_refused(permissive, tmp_path):
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    saver = AgentkitSaver(tmp_path / "s", serde=JsonPlusSerializer() if permissive else None)
    graph = chat(saver)
    graph.invoke({"messages": [HumanMessage("q")]}, CONFIG)
    mark = tmp_path / "ran"
    evil = ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb(("os", "system", f"touch {mark}"))))
    thread = saver.thread("t")

    def plant(log):
        record = log.newest("")
        record.values["messages"] = ["l", log.take("msgpack", evil), 1]
        log.touched(record)

    thread.change(plant, "an attack")
    for read in (lambda: graph.get_state(CONFIG), lambda: list(graph.get_state_history(CONFIG))):
        with pytest.raises(ClassRefused, match=r"names os.system, which is not on the allow list; nothing of it was loaded"):
            read()
    assert not mark.exists()


def test_the_path_to_what_cannot_be_stored_is_named(saver):
    """langchain-ai/langgraph#8606: the serializer names only the type."""

    class Odd:
        __slots__ = ()

    with pytest.raises(CannotStore, match=r"channel 'a'\['deep'\]\[1\] holds a .*Odd, which cannot be stored"):
        holder(saver, {"deep": [1, Odd()]}).invoke({"a": 1}, CONFIG)


class Cipher:
    """AES-GCM over the `cryptography` package: LangGraph's own helper wants another one."""

    def __init__(self, key):
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self.box = AESGCM(key)

    def encrypt(self, plaintext):
        nonce = random.randbytes(12)
        return "aes", nonce + self.box.encrypt(nonce, plaintext, None)

    def decrypt(self, ciphername, ciphertext):
        return self.box.decrypt(ciphertext[:12], ciphertext[12:], None)


def test_encrypted_at_rest_and_still_stored_once(tmp_path):
    def sealed(key):
        return AgentkitSaver(tmp_path, serde=EncryptedSerializer(Cipher(key)))

    graph = chat(sealed(b"k" * 32))
    for number in range(30):
        graph.invoke({"messages": [HumanMessage(f"secret word {number} " + "x" * 300)]}, CONFIG)
    assert len(sealed(b"k" * 32).get_tuple(CONFIG).checkpoint["channel_values"]["messages"]) == 60
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"secret" not in files and b"answer" not in files and len(files) < 400_000
    with pytest.raises(StoreUnavailable, match="is encrypted .aes.; give the saver"):
        AgentkitSaver(tmp_path).get_tuple(CONFIG)
    with pytest.raises(StoreUnavailable, match="is this the key it was written with"):
        sealed(b"o" * 32).get_tuple(CONFIG)


def test_large_values_are_blobs_of_their_own_and_come_back(saver):
    graph = chat(saver, lambda state: {"messages": [AIMessage("z" * 50_000)]})
    for _ in range(3):
        graph.invoke({"messages": [HumanMessage("q")]}, CONFIG)
    assert len(saver.store.read_head(saver.thread("t").key).data) < 60_000
    texts = [len(m.text) for m in AgentkitSaver(saver.store).get_tuple(CONFIG).checkpoint["channel_values"]["messages"]]
    assert texts == [1, 50_000] * 3


def test_what_is_done_is_told_as_events(saver):
    events = []
    with listening(events.append):
        chat(saver).invoke({"messages": [HumanMessage("q")]}, CONFIG)
    kinds = [event.action for event in events if type(event).__name__ == "StoreLogged"]
    assert kinds.count("write") >= 3
    revisions = [event.revision for event in events if getattr(event, "action", "") == "write"]
    assert revisions == sorted(revisions)


def test_copies_and_prunings_keep_the_conversation(saver):
    graph = chat(saver)
    for number in range(30):
        graph.invoke({"messages": [HumanMessage(f"q{number}")]}, CONFIG)
    saver.copy_thread("t", "copy")
    saver.prune(["t"])
    assert len(list(saver.list(CONFIG))) == 1 and saver.store.blobs(saver.thread("t").key) == []
    assert len(graph.invoke({"messages": [HumanMessage("more")]}, CONFIG)["messages"]) == 62
    other = {"configurable": {"thread_id": "copy"}}
    assert len(list(saver.list(other))) == 90 and len(graph.get_state(other).values["messages"]) == 60


def test_bad_settings_are_named(store):
    with pytest.raises(BadField, match="schema is 0"):
        AgentkitSaver(store, schema=0)
    with pytest.raises(BadField, match="strategy is 'all'; allowed are"):
        AgentkitSaver(store).prune(["t"], strategy="all")
    with pytest.raises(BadField, match="changed is 'never'"):
        AgentkitSaver(store).bind(chat(None), changed="never")


@pytest.mark.parametrize("after", [1, 3, 6])
def test_a_disk_that_fills_up_in_a_run_ends_it_with_a_clear_error_and_the_last_revision(after, tmp_path, monkeypatch):
    saver = AgentkitSaver(tmp_path)
    agent = build_agent("react", model=ScriptedChatModel(["one", "two", "three"]), checkpointer=saver)
    assert agent.run("first", thread="t").reason == "answer"
    write, calls = os.pwrite, []

    def filling(*args):
        calls.append(1)
        if len(calls) > after:
            raise OSError(28, "No space left on device")
        return write(*args)

    monkeypatch.setattr(os, "pwrite", filling)
    result = agent.run("second", thread="t")
    assert result.reason == "error" and "No space left on device; the last revision is intact" in result.answer
    monkeypatch.undo()
    texts = [m.text for m in agent.run("third", thread="t").messages]
    assert texts[:2] == ["first", "one"] and texts[-2] == "third"


def test_a_bucket_that_cannot_be_reached_is_told(s3):
    with pytest.raises(StoreUnavailable, match="threads cannot be kept in s3://threads/x"):
        open_store("s3://threads/x", **{**s3, "endpoint": "http://127.0.0.1:9", "retry_config": {"max_retries": 0}})
