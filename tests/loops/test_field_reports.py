"""Reports from the field, each as a test that is named by its source (`cases/field_reports.json`).

Where a report is about LangGraph itself, the test shows what the locked version does, and what agentkit makes of it.
"""

import operator
from typing import Annotated, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import ToolException, tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode

from agentkit.loops.calls import RETRIES
from agentkit.loops.history import calls_of, repaired
from agentkit.loops.state import AgentState
from agentkit.models.messages import as_dicts
from tests.histories import assert_valid, call
from tests.loops.conftest import GRAPH_LOOPS


@pytest.fixture(params=GRAPH_LOOPS)
def loop(request):
    return request.param


@tool
def open_pdf(path: str) -> str:
    """Open a file."""
    raise FileNotFoundError(path)


@tool
def from_mcp() -> str:
    """Fail as an MCP adapter does."""
    raise ToolException("bad")


def _alone(node, name, **args):
    graph = StateGraph(AgentState)
    graph.add_node("tools", node)
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    message = AIMessage("", tool_calls=[{"name": name, "args": args, "id": "1"}])
    return graph.compile().invoke({"messages": [message]})["messages"][-1]


def test_langchain_ai_langgraph_6486_tool_exceptions_become_results(scripted, loop):
    with pytest.raises(FileNotFoundError):  # what ToolNode does by itself
        _alone(ToolNode([open_pdf]), "open_pdf", path="missing.pdf")
    assert _alone(ToolNode([open_pdf]), "open_pdf").status == "error"  # only bad arguments and unknown names
    result = scripted(call("open_pdf", path="missing.pdf"), "It is not there.", tools=[open_pdf]).run("q")
    (message,) = [m for m in result.messages if isinstance(m, ToolMessage)]
    assert (result.reason, message.status) == ("answer", "error") and "missing.pdf" in message.text
    assert "is_error" not in ToolMessage.model_fields


def test_langchain_ai_langgraph_6508_a_tool_exception_of_an_adapter(scripted, loop):
    with pytest.raises(ToolException):
        _alone(ToolNode([from_mcp]), "from_mcp")
    result = scripted(call("from_mcp"), "It failed.", tools=[from_mcp]).run("q")
    (message,) = [m for m in result.messages if isinstance(m, ToolMessage)]
    assert (result.reason, message.status, message.text) == ("answer", "error", "Error: bad")


def test_langchain_ai_langgraph_6676_the_limit_is_always_explicit(scripted, loop):
    from langgraph.config import get_config

    class Count(TypedDict):
        steps: Annotated[int, operator.add]

    graph = StateGraph(Count)
    graph.add_node("again", lambda state: {"steps": 1})
    graph.add_edge(START, "again")
    graph.add_conditional_edges("again", lambda state: "again" if state["steps"] < 200 else END, ["again", END])
    assert graph.compile().invoke({"steps": 0})["steps"] == 200  # nobody stopped it at 25, as older articles say
    seen = []

    @tool
    def look() -> str:
        """Look at the config."""
        seen.append(get_config()["recursion_limit"])
        return "seen"

    agent = scripted(call("look"), "ok", call("look"), "ok", tools=[look])
    agent.run("q")
    agent.graph.invoke({"messages": [HumanMessage("q")]})  # also by somebody who runs the graph without the agent
    assert seen == [60, 60]


def test_langwatch_langwatch_5159_messages_need_their_reducer():
    class Copied(TypedDict):
        messages: Annotated[list, operator.add]

    same = [HumanMessage("old", id="1"), HumanMessage("new", id="1")]
    for state, length in ((Copied, 2), (AgentState, 1)):
        graph = StateGraph(state)
        graph.add_node("again", lambda state: {"messages": [same[1]]})
        graph.add_edge(START, "again")
        assert len(graph.compile().invoke({"messages": [same[0]]})["messages"]) == length
    assert add_messages(same[:1], [RemoveMessage("1")]) == []
    with pytest.raises(ValueError, match="doesn't exist"):
        add_messages(same[:1], [RemoveMessage("2")])


def test_exo_explore_exo_1757_a_call_that_cannot_be_read_is_told_and_counted(scripted, loop):
    unread = AIMessage(
        "",
        invalid_tool_calls=[
            {
                "name": "shell",
                "args": '<|tool_calls_section_begin|><|tool_call_begin|>functions.shell!1 {"cmd":"ls"}',
                "id": None,
                "error": "the call is not in a form that is known",
                "type": "invalid_tool_call",
            }
        ],
    )
    agent = scripted(*[unread] * 3, "never")
    result = agent.run("q")
    assert result.reason == "malformed" and agent.model.position == RETRIES + 1
    assert_valid(result.messages)
    told = agent.model.calls[1].messages[-1]
    assert told.status == "error" and "not in a form that is known" in told.text and len(told.text) < 700
    assert "Write the whole call again" in told.text


def test_jjang_ai_mlxstudio_62_a_message_that_held_only_a_thought_and_a_call_is_kept():
    message = AIMessage(
        "",
        tool_calls=[{"name": "ls", "args": {}, "id": "1"}],
        additional_kwargs={"reasoning_content": "x"},
    )
    history = [HumanMessage("q"), message, ToolMessage("a.txt", tool_call_id="1", name="ls")]
    assert repaired(history) == history and calls_of(message) == {"1": "ls"}
    stripped = message.model_copy(update={"additional_kwargs": {}})
    shown = as_dicts([history[0], stripped, history[2]])
    assert shown[1]["content"] == "" and shown[1]["tool_calls"][0]["function"]["name"] == "ls"
    assert [m["role"] for m in shown] == ["user", "assistant", "tool"]
