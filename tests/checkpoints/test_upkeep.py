"""Damage is found, named and repaired as far as it can be; threads move between stores and keep their history."""

import sqlite3

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph

from agentkit.checkpoints.errors import StoreDamaged
from agentkit.checkpoints.migrations import migration
from agentkit.checkpoints.saver import AgentkitSaver
from agentkit.checkpoints.stores import open_store
from agentkit.checkpoints.upkeep import export_thread, import_sqlite, import_thread, migrate, repair, verify
from agentkit.models.errors import AgentkitError

CONFIG = {"configurable": {"thread_id": "t"}}


def talk(saver, turns, thread="t", size=10):
    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [AIMessage("a" * size + str(len(state["messages"])))]})
    builder.add_edge(START, "model")
    graph = builder.compile(checkpointer=saver)
    for number in range(turns):
        graph.invoke({"messages": [HumanMessage(f"q{number}")]}, {"configurable": {"thread_id": thread}})
    return graph


def _history(saver, thread="t"):
    return [(c.checkpoint["id"], c.checkpoint["channel_values"], c.metadata, c.pending_writes, c.parent_config and
             c.parent_config["configurable"]["checkpoint_id"])
            for c in saver.list({"configurable": {"thread_id": thread}})]


def _flip(path, at=-1):
    data = bytearray(path.read_bytes())
    data[at if at >= 0 else len(data) // 2] ^= 1
    path.write_bytes(data)


def _newest_slot(folder, saver):
    key = saver.thread("t").key
    slots = [folder / key / f"head.{n}" for n in (0, 1)]
    return max(slots, key=lambda path: path.read_bytes()[:8])


def test_a_sound_store_has_no_findings(store):
    saver = AgentkitSaver(store)
    talk(saver, 25)
    talk(saver, 2, "other", size=40_000)
    ticks = []
    found = {item.thread: item for item in verify(saver, lambda done, total: ticks.append((done, total)))}
    assert {name: item.problems for name, item in found.items()} == {"t": (), "other": ()}
    assert found["t"].checkpoints == 75 and ticks == [(1, 2), (2, 2)]


@pytest.mark.parametrize("at", [30, 900])
def test_a_flipped_head_goes_back_to_the_one_before(at, tmp_path):
    saver = AgentkitSaver(tmp_path)
    talk(saver, 3)
    before = [entry[0] for entry in _history(saver)]
    _flip(_newest_slot(tmp_path, saver), at)
    with pytest.raises(StoreDamaged, match="is damaged.*threads repair` offers the last good revision"):
        AgentkitSaver(tmp_path).get_tuple(CONFIG)
    (found,) = verify(AgentkitSaver(tmp_path))
    assert len(found.problems) == 1
    words = repair(AgentkitSaver(tmp_path), found.key)
    assert "from the head before it" in words
    with pytest.raises(StoreDamaged):
        AgentkitSaver(tmp_path).get_tuple(CONFIG)  # only said, not done
    repair(AgentkitSaver(tmp_path), found.key, write=True)
    after = AgentkitSaver(tmp_path)
    assert [entry[0] for entry in _history(after)] == before[1:] or [entry[0] for entry in _history(after)] == before
    assert [item.problems for item in verify(after)] == [()]
    talk(after, 1)


def test_both_heads_gone_leaves_what_the_segments_hold(tmp_path):
    saver = AgentkitSaver(tmp_path)
    talk(saver, 30)
    key = saver.thread("t").key
    for place in (0, 1):
        (tmp_path / key / f"head.{place}").unlink()
    (found,) = verify(AgentkitSaver(tmp_path))
    assert "it is missing, though" in found.problems[0]
    assert "from its segments" in repair(AgentkitSaver(tmp_path), key, write=True)
    again = AgentkitSaver(tmp_path)
    assert 40 < len(_history(again)) < 90 and [item.problems for item in verify(again)] == [()]
    talk(again, 1)


@pytest.mark.parametrize("how", ["flipped", "missing", "truncated"])
def test_a_damaged_segment_is_named_and_the_rest_saved(how, tmp_path):
    saver = AgentkitSaver(tmp_path)
    talk(saver, 60)
    key = saver.thread("t").key
    name = saver.thread("t").log().index[0].blob
    path = tmp_path / key / "blobs" / name
    {"flipped": lambda: _flip(path), "missing": path.unlink,
     "truncated": lambda: path.write_bytes(path.read_bytes()[:-9])}[how]()
    with pytest.raises(StoreDamaged, match=f"segment {name[:12]} of thread 't' is damaged"):
        _history(AgentkitSaver(tmp_path))
    (found,) = verify(AgentkitSaver(tmp_path))
    assert name[:12] in found.problems[0]
    # The first messages are part of every later state: what can be saved is what does not need them.
    with pytest.raises(StoreDamaged, match="neither head.*import it from an export"):
        repair(AgentkitSaver(tmp_path), found.key)


def test_swapped_threads_are_noticed(tmp_path):
    saver = AgentkitSaver(tmp_path)
    talk(saver, 1)
    talk(saver, 1, "other")
    one, two = saver.thread("t").key, saver.thread("other").key
    (tmp_path / one).rename(tmp_path / "aside")
    (tmp_path / two).rename(tmp_path / one)
    (tmp_path / "aside").rename(tmp_path / two)
    with pytest.raises(StoreDamaged, match="it is the head of thread 'other', not the head of 't' .swapped."):
        AgentkitSaver(tmp_path).get_tuple(CONFIG)
    assert all("swapped" in item.problems[0] for item in verify(AgentkitSaver(tmp_path)))


def test_export_and_import_keep_the_whole_history(store, tmp_path):
    saver = AgentkitSaver(store)
    talk(saver, 25, size=3000)
    talk(saver, 1, size=40_000)
    data = export_thread(saver, "t")
    other = AgentkitSaver(tmp_path / "other")
    assert import_thread(other, data) == "t"
    assert _history(other) == _history(saver)
    with pytest.raises(AgentkitError, match="'t' exists already in .*--as"):
        import_thread(other, data)
    assert import_thread(other, data, "again") == "again" and other.threads() == ["again", "t"]
    with pytest.raises(StoreDamaged, match="thread.akt is damaged"):
        import_thread(other, data[:-5], "third", "thread.akt")
    with pytest.raises(AgentkitError, match="thread 'no' does not exist"):
        export_thread(saver, "no")


def test_threads_of_sqlite_saver_move_with_their_history(tmp_path):
    db = sqlite3.connect(tmp_path / "old.sqlite", check_same_thread=False)
    old = SqliteSaver(db)
    graph = talk(old, 3)
    second = list(graph.get_state_history(CONFIG))[-4]
    graph.update_state(second.config, {"messages": [HumanMessage("a fork")]})
    saver = AgentkitSaver(tmp_path / "new")
    assert import_sqlite(saver, tmp_path / "old.sqlite") == ["t"]
    plain = [(i, v, {k: m[k] for k in ("source", "step")}, sorted(w, key=str), p) for i, v, m, w, p in _history(saver)]
    assert plain == [(i, v, {k: m[k] for k in ("source", "step")}, sorted(w, key=str), p) for i, v, m, w, p in _history(old)]
    newest = graph.get_state(CONFIG).values["messages"]
    assert saver.get_tuple(CONFIG).checkpoint["channel_values"]["messages"] == newest
    talk(saver, 1)
    assert len(saver.get_tuple(CONFIG).checkpoint["channel_values"]["messages"]) == len(newest) + 2
    with pytest.raises(AgentkitError, match="'t' exists already"):
        import_sqlite(saver, tmp_path / "old.sqlite")
    db.close()


def test_migrate_says_what_changes_and_then_does_it(tmp_path):
    talk(AgentkitSaver(tmp_path), 2)
    step = migration(1, 2)(lambda state: {"messages": state["messages"][-2:], "topic": "none"})
    newer = AgentkitSaver(open_store(tmp_path), schema=2, migrations=[step])
    row = {"thread": "t", "from": 1, "to": 2, "new": "topic", "gone": "", "changed": "messages"}
    assert migrate(newer, "t", dry=True) == [row]
    assert AgentkitSaver(tmp_path).get_tuple(CONFIG) is not None, "a dry run writes nothing"
    assert migrate(newer, "t", dry=False) == [row] and migrate(newer, "t", dry=False) == []
    values = AgentkitSaver(tmp_path, schema=2).get_tuple(CONFIG).checkpoint["channel_values"]
    assert values["topic"] == "none" and len(values["messages"]) == 2
