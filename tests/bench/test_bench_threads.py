"""The figures of stored threads measure what they say."""

import math

import pytest

from agentkit.bench import threads


@pytest.fixture(scope="module")
def sizes(tmp_path_factory):
    return threads.storage(tmp_path_factory.mktemp("storage"), 250, lambda done, total: None)


def test_storage_is_counted_from_the_files_and_grows_with_the_messages(sizes):
    assert list(sizes) == [100, 250]
    assert sizes[100] > 100 * 200 * 0.7, "random letters do not compress away"
    assert math.log(sizes[250] / sizes[100]) / math.log(2.5) < 1.1


def test_a_history_has_as_many_checkpoints_as_asked_and_both_looks_work(tmp_path):
    folder = threads.history(tmp_path / "h", 60)
    assert len(list(threads._ours(folder).list({"configurable": {"thread_id": "t"}}))) == 60
    assert threads._seconds(folder, threads._list) > 0 and threads._seconds(folder, threads._open) > 0


def test_both_savers_run_the_same_turns(tmp_path):
    for saver in (threads._ours(tmp_path / "a"), threads._sqlite(tmp_path / "b")):
        graph = threads._chat(saver)
        assert threads.turns(graph, 2) > 0
        assert len(graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"]) == 4
