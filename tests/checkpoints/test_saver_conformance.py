"""LangGraph's own conformance suite, in full, on every store."""

import asyncio

from langgraph.checkpoint.conformance import checkpointer_test, validate

from agentkit.checkpoints.saver import AgentkitSaver
from agentkit.checkpoints.stores import open_store


def test_the_whole_suite_passes(place):
    @checkpointer_test(name="agentkit")
    async def fresh():
        yield AgentkitSaver(open_store(place[0], **place[1]))

    report = asyncio.run(validate(fresh))
    failures = {name: found.failures for name, found in report.results.items() if not found.passed}
    assert failures == {}
    assert set(report.results) == {"put", "put_writes", "get_tuple", "list", "delete_thread", "delete_for_runs",
                                   "copy_thread", "prune"}
