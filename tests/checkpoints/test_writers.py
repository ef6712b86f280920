"""Many writers on one thread at once: no turn is lost, and no model is asked twice."""

import json
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from agentkit.checkpoints.saver import AgentkitSaver
from agentkit.checkpoints.stores import open_store
from agentkit.events import listening
from agentkit.loops.build import build_agent
from agentkit.models import ScriptedChatModel

CONFIG = {"configurable": {"thread_id": "t"}}


def _at_once(count, work):
    """Run `work(number)` in so many threads that all begin together; raises what any of them raised."""
    gate, failed = threading.Barrier(count), []

    def one(number):
        gate.wait()
        try:
            work(number)
        except BaseException as problem:
            failed.append(problem)

    workers = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failed:
        raise failed[0]


def talker(saver, model, before=lambda: None):
    """A plain graph of LangGraph's, which knows of no leases."""

    def reply(state):
        before()
        return {"messages": [model.invoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", reply)
    builder.add_edge(START, "model")
    return builder.compile(checkpointer=saver)


def _texts(saver):
    return [message.text for message in saver.get_tuple(CONFIG).checkpoint["channel_values"]["messages"]]


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_fifty_turns_at_once_without_a_lease_are_all_kept(kind, tmp_path, request):
    from tests.checkpoints.conftest import address

    options = request.getfixturevalue("s3") if kind == "s3" else {}
    saver = AgentkitSaver(open_store(address(kind, tmp_path), **options))
    model = ScriptedChatModel(["a"] * 400)
    graph = talker(saver, model)
    _at_once(50, lambda n: graph.invoke({"messages": [HumanMessage(f"q{n}")]}, CONFIG))
    texts = _texts(saver)
    assert {text for text in texts if text != "a"} == {f"q{n}" for n in range(50)}
    assert (len(texts), len(model.calls)) == (100, 50)
    assert graph.get_state(CONFIG).next == ()


def test_turns_that_overlap_wholly_are_merged_and_told(saver_of):
    """All have read the empty thread before the first writes its answer."""
    saver = saver_of()
    model, together, events = ScriptedChatModel(["a"] * 40), threading.Barrier(8, timeout=30), []
    graph = talker(saver, model, together.wait)

    def ask(number):
        with listening(events.append):
            graph.invoke({"messages": [HumanMessage(f"q{number}")]}, CONFIG)

    _at_once(8, ask)
    texts = _texts(saver)
    assert sorted(texts) == ["a"] * 8 + [f"q{n}" for n in range(8)] and len(model.calls) == 8
    actions = [event.action for event in events if type(event).__name__ == "StoreLogged"]
    assert "merge" in actions and "conflict" in actions
    after = talker(saver, model).invoke({"messages": [HumanMessage("after")]}, CONFIG)
    assert [m.text for m in after["messages"][-2:]] == ["after", "a"] and len(after["messages"]) == 18


@pytest.fixture
def saver_of(store):
    return lambda **options: AgentkitSaver(store, **options)


@pytest.mark.parametrize("loop", ["react", "lite"])
@pytest.mark.parametrize("kind", ["memory", "local"])
def test_fifty_turns_of_an_agent_come_one_after_the_other(kind, loop, tmp_path):
    from tests.checkpoints.conftest import address

    saver = AgentkitSaver(address(kind, tmp_path))
    model = ScriptedChatModel([f"a{n}" for n in range(50)])
    agent = build_agent(loop, model=model, checkpointer=saver)
    reasons = []
    _at_once(50, lambda n: reasons.append(agent.run(f"q{n}", thread="t").reason))
    texts = _texts(saver)
    assert reasons == ["answer"] * 50 and len(model.calls) == 50
    assert texts[1::2] == [f"a{n}" for n in range(50)], "each turn saw the one before"
    assert set(texts[::2]) == {f"q{n}" for n in range(50)}


def test_a_turn_that_waits_for_another_can_be_stopped(tmp_path):
    saver = AgentkitSaver(tmp_path)
    agent = build_agent("lite", model=ScriptedChatModel(["a", "b"]), checkpointer=saver)
    cancel = threading.Event()
    with saver.turn("t"):
        threading.Timer(0.3, cancel.set).start()
        assert agent.run("q", thread="t", cancel=cancel).reason == "cancel"
    assert agent.run("q", thread="t").reason == "answer"


PROGRAM = textwrap.dedent("""
    import json, sys
    from langchain_core.messages import HumanMessage
    from langgraph.graph import START, MessagesState, StateGraph
    from agentkit.checkpoints.saver import AgentkitSaver
    from agentkit.checkpoints.stores import open_store
    from agentkit.loops.build import build_agent
    from agentkit.models import ScriptedChatModel

    place, options, loop, me = json.loads(sys.argv[1])
    saver = AgentkitSaver(open_store(place, **options))
    model = ScriptedChatModel(["a"] * 100)
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(10):
        if loop == "plain":
            builder = StateGraph(MessagesState)
            builder.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
            builder.add_edge(START, "model")
            config = {"configurable": {"thread_id": "t"}}
            builder.compile(checkpointer=saver).invoke({"messages": [HumanMessage(f"{me} {n}")]}, config)
        else:
            assert build_agent(loop, model=model, checkpointer=saver).run(f"{me} {n}", thread="t").reason == "answer"
    print(len(model.calls))
""")


@pytest.mark.parametrize(("kind", "loop"), [("local", "react"), ("local", "plain"), ("s3", "react"), ("s3", "plain"),
                                            ("sqlite", "plain")])
def test_five_processes_lose_nothing(kind, loop, tmp_path, request):
    """Two machines on one bucket are two processes that share nothing but the bucket."""
    from tests.checkpoints.conftest import address

    options = request.getfixturevalue("s3") if kind == "s3" else {}
    place = address(kind, tmp_path)
    running = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, json.dumps([place, options, loop, f"p{me}"])],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for me in range(5)
    ]
    for process in running:
        assert process.stdout.readline() == "ready\n"
    calls = 0
    for process in running:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in running:
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0, err
        calls += int(out)
    texts = _texts(AgentkitSaver(open_store(place, **options)))
    assert {text for text in texts if text != "a"} == {f"p{me} {n}" for me in range(5) for n in range(10)}
    assert (len(texts), calls) == (100, 50)


def test_another_channel_that_both_changed_is_told_or_merged_as_asked(saver_of):
    """Of a value without a rule the later one stands, and an event says so; with a rule nothing gives way."""
    from typing import TypedDict

    class Counted(TypedDict):
        count: int

    def run(saver):
        inside, go_on, events = threading.Event(), threading.Event(), []

        def graph(wait):
            builder = StateGraph(Counted)
            builder.add_node("add", lambda state: (wait(), {"count": state["count"] + 1})[1])
            builder.add_edge(START, "add")
            return builder.compile(checkpointer=saver)

        def slow():
            with listening(events.append):
                graph(lambda: (inside.set(), go_on.wait(30))).invoke({"count": 20}, CONFIG)

        first = threading.Thread(target=slow)
        first.start()
        assert inside.wait(30)
        graph(lambda: None).invoke({"count": 30}, CONFIG)
        go_on.set()
        first.join()
        told = [event.detail for event in events if getattr(event, "action", "") == "merge"]
        return saver.get_tuple(CONFIG).checkpoint["channel_values"]["count"], told

    saver = saver_of()
    count, told = run(saver)
    assert count == 21 and any("channel 'count' was changed by two runs; the later value stands" in d for d in told)
    saver.delete_thread("t")
    count, told = run(saver_of(merge={"count": lambda base, ours, theirs: ours + theirs - (base or 20)}))
    # Where the line left before the slow run's input was written, there is no base value.
    assert count == 21 + 31 - 20 and not any("was changed by two runs" in d for d in told)


def test_a_run_that_edits_history_beside_another_keeps_both(saver_of):
    from langchain_core.messages import RemoveMessage

    saver = saver_of()
    graph = talker(saver, ScriptedChatModel(["a"] * 20))
    graph.invoke({"messages": [HumanMessage("old", id="old")]}, CONFIG)
    inside, go_on = threading.Event(), threading.Event()

    def slow(state):
        inside.set()
        go_on.wait(30)
        return {"messages": [RemoveMessage("old"), AIMessage("forgotten")]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", slow)
    builder.add_edge(START, "model")
    forgetting = threading.Thread(target=builder.compile(checkpointer=saver).invoke,
                                  args=({"messages": [HumanMessage("forget it")]}, CONFIG))
    forgetting.start()
    assert inside.wait(30)
    graph.invoke({"messages": [HumanMessage("meanwhile")]}, CONFIG)
    go_on.set()
    forgetting.join()
    assert sorted(_texts(saver)) == sorted(["a", "meanwhile", "a", "forget it", "forgotten"])


@pytest.mark.parametrize("answered", ["by its checkpoint", "by its thread"])
@pytest.mark.parametrize("asks", ["first", "second"])
def test_an_interrupt_beside_another_run_can_be_answered_and_both_stay(asks, answered, saver_of):
    """The run that asks a person is on the main line ("first"), or the other has taken it from there ("second")."""
    saver = saver_of()

    def build(reply):
        builder = StateGraph(MessagesState)
        builder.add_node("model", reply)
        builder.add_edge(START, "model")
        return builder.compile(checkpointer=saver)

    inside, go_on = threading.Event(), threading.Event()
    asking = build(lambda state: {"messages": [AIMessage(interrupt("may I?"))]})
    if asks == "first":
        slow = build(lambda state: (inside.set(), go_on.wait(30), {"messages": [AIMessage("plain")]})[2])
        quick = asking
    else:
        paused = iter([lambda: (inside.set(), go_on.wait(30))])
        slow = build(lambda state: (next(paused, lambda: None)(), {"messages": [AIMessage(interrupt("may I?"))]})[1])
        quick = build(lambda state: {"messages": [AIMessage("plain")]})
    first = threading.Thread(target=slow.invoke, args=({"messages": [HumanMessage("slow")]}, CONFIG))
    first.start()
    assert inside.wait(30)
    while not ((held := saver.get_tuple(CONFIG)) and "branch:to:model" in held.checkpoint["channel_values"]):
        time.sleep(0.01)  # its checkpoints are written while the node runs
    quick.invoke({"messages": [HumanMessage("quick")]}, CONFIG)
    go_on.set()
    first.join()
    waiting = next(state for state in asking.get_state_history(CONFIG) if state.interrupts)
    if asks == "second":
        # The other run began from the checkpoint that waits, and ended: resuming that one is a fork, as in LangGraph.
        assert asking.get_state(CONFIG).next == () and set(_texts(saver)) == {"slow", "quick", "plain"}
        if answered == "by its checkpoint":
            asking.invoke(Command(resume="granted"), waiting.config)
            assert set(_texts(saver)) == {"slow", "granted"}
        return
    asking.invoke(Command(resume="granted"), waiting.config if answered == "by its checkpoint" else CONFIG)
    assert {"plain", "granted", "slow", "quick"} == set(_texts(saver))
    assert asking.get_state(CONFIG).next == ()
