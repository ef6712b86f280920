"""Old threads under new code: migrated, or refused by name; never started anew in silence."""

import dataclasses
import operator
from typing import Annotated, TypedDict

import pydantic
import pytest
from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt

from agentkit.checkpoints.errors import GraphChanged, MigrationMissing, SchemaNewer
from agentkit.checkpoints.migrations import migration
from agentkit.checkpoints.saver import AgentkitSaver
from agentkit.checkpoints.stores import open_store
from agentkit.events import listening
from agentkit.models.errors import BadField

CONFIG = {"configurable": {"thread_id": "t"}}
KINDS = ["TypedDict", "dataclass", "pydantic"]


def schema(kind, **fields):
    """A state class of this kind with these annotations; a tuple is (annotation, default)."""
    plain = {name: found[0] if isinstance(found, tuple) else found for name, found in fields.items()}
    defaults = {name: found[1] for name, found in fields.items() if isinstance(found, tuple)}
    if kind == "TypedDict":
        return TypedDict("State", plain)
    if kind == "dataclass":
        return dataclasses.make_dataclass("State", [
            (name, note, dataclasses.field(default=defaults[name])) if name in defaults else (name, note)
            for name, note in sorted(plain.items(), key=lambda pair: pair[0] in defaults)])
    return pydantic.create_model("State", **{name: (note, defaults.get(name, ...)) for name, note in plain.items()})


def get(state, name):
    return state[name] if isinstance(state, dict) else getattr(state, name)


def graph(saver, state, step=lambda state: {}, node="step", changed="refuse"):
    builder = StateGraph(state)
    builder.add_node(node, step)
    builder.add_edge(START, node)
    builder.add_edge(node, END)
    return saver.bind(builder.compile(), changed)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store"


V1 = {"log": Annotated[list, operator.add], "word": str}


def _first(path, kind):
    graph(AgentkitSaver(path), schema(kind, **V1)).invoke({"log": ["one"], "word": "old"}, CONFIG)


@migration(1, 2)
def added(state):
    return {**state, "count": len(state["log"])}


@migration(1, 2)
def removed(state):
    return {"log": state["log"]}


@migration(1, 2)
def renamed(state):
    return {"log": state["log"], "term": state["word"]}


@migration(1, 2)
def retyped(state):
    return {"log": state["log"], "word": [state["word"]]}


@migration(1, 2)
def reducer_dropped(state):
    return {"log": state["log"][-1:], "word": state["word"]}


CHANGES = {
    "added": (added, {**V1, "count": int}, "channel 'count' is new", ("count", 1)),
    "removed": (removed, {"log": V1["log"]}, "channel 'word' is gone", ("log", ["one"])),
    "renamed": (renamed, {"log": V1["log"], "term": str}, "channel 'term' is new; channel 'word' is gone", ("term", "old")),
    "retyped": (retyped, {"log": V1["log"], "word": list}, "channel 'word' was .*str. and is .*list", ("word", ["old"])),
    "reducer dropped": (reducer_dropped, {"log": list, "word": str}, "channel 'log' was Binary.* and is LastValue",
                        ("log", ["one"])),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_schema_is_refused_by_name_and_goes_on_once_migrated(change, kind, path):
    """langchain-ai/docs#445: a new required key raises KeyError on an old thread, or the old value stays in silence."""
    step, fields, words, (channel, value) = CHANGES[change]
    _first(path, kind)
    with pytest.raises(GraphChanged, match=f"thread 't' was written by another graph .*: {words}.*Raise `schema`"):
        graph(AgentkitSaver(path), schema(kind, **fields)).get_state(CONFIG)
    with pytest.raises(MigrationMissing, match="schema version 1, the code has 2, and no migration leads on from 1"):
        graph(AgentkitSaver(path, schema=2), schema(kind, **fields)).get_state(CONFIG)
    seen = []
    now = graph(AgentkitSaver(path, schema=2, migrations=[step]), schema(kind, **fields),
                lambda state: seen.append(get(state, channel)) or {})
    assert now.get_state(CONFIG).values[channel] == value
    now.invoke(_again(fields), CONFIG)
    assert seen[0] == value + ["two"] if channel == "log" and change == "removed" else seen[0] == _seen(change, value)
    fresh = graph(AgentkitSaver(path, schema=2), schema(kind, **fields))
    assert channel in fresh.get_state(CONFIG).values, "the new state is stored under the new version"
    with pytest.raises(SchemaNewer, match="schema version 2, this code knows 1"):
        graph(AgentkitSaver(path), schema(kind, **V1)).get_state(CONFIG)


def _again(fields):
    return {"log": ["two"]}


def _seen(change, value):
    return ["two"] if change == "reducer dropped" else value


@pytest.mark.parametrize("kind", KINDS)
def test_migrations_run_one_after_the_other(kind, path):
    _first(path, kind)

    @migration(2, 3)
    def doubled(state):
        return {**state, "count": state["count"] * 10}

    events = []
    with listening(events.append):
        found = graph(AgentkitSaver(path, schema=3, migrations=[doubled, added]),
                      schema(kind, **V1, count=int)).get_state(CONFIG)
    assert found.values["count"] == 10
    assert any(e.action == "migration" and "schema 1 to 3" in e.detail for e in events if hasattr(e, "action"))
    with pytest.raises(MigrationMissing, match="no migration leads on from 2: write one with @migration.2, 3."):
        graph(AgentkitSaver(path, schema=3, migrations=[added]), schema(kind, **V1, count=int)).get_state(CONFIG)


def asking(saver, kind, node, changed="refuse"):
    return graph(saver, schema(kind, word=str), lambda state: {"word": interrupt("may I?")}, node, changed)


@pytest.mark.parametrize("changed", ["refuse", "when finished"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_renamed_node_with_a_pending_interrupt_keeps_its_approval(kind, changed, path):
    """LangGraph alone returns in silence, and the approval is lost."""
    asking(AgentkitSaver(path), kind, "review").invoke({"word": "draft"}, CONFIG)
    lost = asking(AgentkitSaver(path), kind, "approve", changed)
    with pytest.raises(GraphChanged, match="waits in node 'review', which this graph does not have .it has approve.*nodes="):
        lost.invoke(Command(resume="granted"), CONFIG)

    @migration(1, 2, nodes={"review": "approve"})
    def review_is_approve(state):
        return state

    now = asking(AgentkitSaver(path, schema=2, migrations=[review_is_approve]), kind, "approve", changed)
    assert now.get_state(CONFIG).next == ("approve",)
    assert now.invoke(Command(resume="granted"), CONFIG)["word"] == "granted"


def test_a_finished_thread_may_go_on_with_another_graph_if_asked_to(path):
    class Chat(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]

    graph(AgentkitSaver(path), Chat, node="first").invoke({"messages": [HumanMessage("q")]}, CONFIG)
    with pytest.raises(GraphChanged, match="node 'first' is gone; node 'second' is new"):
        graph(AgentkitSaver(path), Chat, node="second").get_state(CONFIG)
    other = graph(AgentkitSaver(path), Chat, node="second", changed="when finished")
    assert len(other.invoke({"messages": [HumanMessage("r")]}, CONFIG)["messages"]) == 2


def test_migrations_go_forward_and_return_a_state(path):
    with pytest.raises(BadField, match=r"migration\(2, 1\): a migration goes forward"):
        migration(2, 1)
    _first(path, "TypedDict")

    @migration(1, 2)
    def forgot(state):
        state["count"] = 1

    with pytest.raises(BadField, match=r"migration\(1, 2\) gave a NoneType; it has to return the state"):
        AgentkitSaver(path, schema=2, migrations=[forgot]).get_tuple(CONFIG)


def test_old_checkpoints_of_the_history_are_migrated_as_well(path):
    _first(path, "TypedDict")
    saver = AgentkitSaver(open_store(path), schema=2, migrations=[migration(1, 2)(lambda state: {**state, "count": 7})])
    assert [c.checkpoint["channel_values"]["count"] for c in saver.list(CONFIG)] == [7, 7, 7]
