"""Lesson 04's checks: every wrong graph fails with the message meant for it, the right one passes."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Send

from agentkit.lab.check import edges
from agentkit.loops.nodes import model_node, open_calls, should_continue
from agentkit.loops.state import AgentState

REASON = HumanMessage("Please answer in a whole sentence.", id="why", name="reviewer")


def graph(router, name="", node=None, back=True, targets=None):
    """A builder of the lesson's graph, with one more node behind the router."""

    def build(model, tools):
        made = StateGraph(AgentState)
        made.add_node("model", model_node(model, tools))
        made.add_node("tools", ToolNode(tools))
        made.add_edge(START, "model")
        made.add_edge("tools", "model")
        if name:
            made.add_node(name, node)
            if back:
                made.add_edge(name, "model")
        made.add_conditional_edges("model", router, targets or ["tools", *[name] * bool(name), END])
        return made.compile()

    return build


def says(message):
    return lambda state: {"messages": [message]}


def route(once=True, look_at_calls=True, short=20, where="review"):
    def router(state):
        last = state["messages"][-1]
        if look_at_calls and last.tool_calls:
            return "tools"
        if len(last.text) < short and not (once and any(m.name == "reviewer" for m in state["messages"])):
            return where
        return should_continue(state)

    return router


@pytest.mark.parametrize("build, told", [
    (graph(should_continue), "the run was over. Is there a way to the reviewer"),
    (graph(route(), "review", says(REASON), back=False), "and one back to the model"),
    (graph(route(), "review", says(REASON), targets=["tools", END]), "not among the targets"),
    (graph(route(look_at_calls=False), "review", says(REASON)), "empty text: is it a short answer?"),
    (graph(route(once=False), "review", says(REASON)), "asked again and again"),
    (graph(route(short=99), "review", says(REASON)), "was asked once more all the same"),
    (graph(route(), "review", says(AIMessage("Well", name="reviewer"))), "as a HumanMessage"),
    (graph(lambda state: "tools", targets=["tools", END]), "asked again and again"),
    (lambda model, tools: None, "AttributeError"),
])
def test_a_wrong_reviewer_is_told_what_it_does(build, told):
    verdict = edges.reviewer(build)
    assert not verdict.ok and told in verdict.text


def test_a_reviewer_that_asks_once_is_right():
    assert edges.reviewer(graph(route(), "review", says(REASON))).ok


def refusal(names=("delete_file",), status="error"):
    return lambda state: {"messages": [
        ToolMessage("Error: not allowed.", name=call["name"], tool_call_id=call["id"], status=status)
        for call in open_calls(state["messages"]) if call["name"] in names]}


def sort(state):
    calls = open_calls(state["messages"])
    safe = [Send("tools", [call]) for call in calls if call["name"] != "delete_file"]
    return safe + ["refuse"] * (len(safe) < len(calls)) or END


def all_or_nothing(state):
    calls = open_calls(state["messages"])
    if any(call["name"] == "delete_file" for call in calls):
        return "refuse"
    return "tools" if calls else END


def first_decides(state):
    calls = open_calls(state["messages"])
    return ("refuse" if calls[0]["name"] == "delete_file" else "tools") if calls else END


BOTH = ("delete_file", "read_file")


@pytest.mark.parametrize("build, told", [
    (graph(should_continue), "delete_file ran. Let the router"),
    (graph(first_decides, "refuse", refusal()), "delete_file ran. Let the router"),
    (graph(sort, "refuse", refusal(names=())), "the call of delete_file has no result"),
    (graph(all_or_nothing, "refuse", refusal()), "the call of read_file has no result"),
    (graph(all_or_nothing, "refuse", refusal(BOTH)), "read_file ran 0 times"),
    (graph(sort, "refuse", refusal(BOTH)), "the call of read_file has 2 results"),
    (graph(sort, "refuse", refusal(status="success")), "as if delete_file had worked"),
    (graph(sort, "refuse", refusal(), back=False), "before the model read the results"),
    (graph(sort, "refuse", refusal(), targets=["tools", END]), "not among the targets"),
])
def test_a_wrong_refusal_is_told_what_it_does(build, told):
    verdict = edges.refuses(build)
    assert not verdict.ok and told in verdict.text


def test_a_graph_that_refuses_only_what_is_dangerous_is_right():
    assert edges.refuses(graph(sort, "refuse", refusal())).ok


def test_the_shop_s_first_booking_fails_and_the_next_works():
    (pay, book), ran = edges.shop()
    assert pay.invoke({}) == "paid"
    with pytest.raises(ConnectionError):
        book.invoke({})
    assert book.invoke({}) == "booked" and ran == {"pay": 1, "book": 2}
