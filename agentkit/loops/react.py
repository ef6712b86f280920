"""The `react` loop, the full agent: `START -> react -> END`.

Seen from outside, one node has the whole history and all tool results. Were it one function, a crash would lose the
turn and run every tool again, and the recursion limit would not bound it. So the node is a graph: each model call and
each tool is a superstep that is saved when it ends, that counts, and from which a later process goes on.
"""

from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph

from agentkit.loops.graph import GraphAgent, run_inside
from agentkit.loops.nodes import model_node, open_calls, should_continue, tools_node
from agentkit.loops.planner import Planner
from agentkit.loops.state import AgentState


def build(model: Any, tools: list, checkpointer: Any, profile: Any) -> GraphAgent:
    """The agent; `build_agent` checks the arguments. It plans if it has the tool `create_plan`."""
    inner = inner_graph(model, tools).compile()

    def react(state: AgentState, config: RunnableConfig) -> dict:
        return run_inside(inner, state, config)

    graph = StateGraph(AgentState)
    graph.add_node("react", react)
    graph.add_edge(START, "react")
    graph.add_edge("react", END)
    return GraphAgent("react", graph.compile(checkpointer), "react", model, tools, checkpointer, profile)


def inner_graph(model: Any, tools: list) -> StateGraph:
    """The graph inside the node: model, tools, model, until an answer; before it the planner, where a plan has a place."""
    graph = StateGraph(AgentState)
    graph.add_node("model", model_node(model, tools))
    graph.add_node("tools", tools_node(tools))
    graph.add_conditional_edges("model", should_continue, ["tools", END])
    graph.add_edge("tools", "model")
    planner = Planner(model, tools)
    if planner.has_tool:
        graph.add_node("planner", planner.node)
        graph.add_edge(START, "planner")
        graph.add_conditional_edges("planner", after_planner, ["tools", "model"])
    else:
        graph.add_edge(START, "model")
    return graph


def after_planner(state: AgentState) -> Any:
    """A call that the planner wrote is run before the model is asked."""
    return should_continue(state) if open_calls(state["messages"]) else "model"
