"""The `planned` loop: a StateGraph put together by hand, with a planner node ahead of the ReAct loop."""

from typing import Any

from langgraph.graph import END, START, StateGraph

from agentkit.loops.graph import GraphAgent
from agentkit.loops.nodes import model_node, should_continue, tools_node
from agentkit.loops.planner import Planner
from agentkit.loops.react import after_planner
from agentkit.loops.state import AgentState


def build(model: Any, tools: list, checkpointer: Any, profile: Any) -> GraphAgent:
    """The agent; `build_agent` checks the arguments."""
    graph = StateGraph(AgentState)
    graph.add_node("planner", Planner(model, tools).node)
    graph.add_node("model", model_node(model, tools))
    graph.add_node("tools", tools_node(tools))
    graph.add_edge(START, "planner")
    graph.add_conditional_edges("planner", after_planner, ["tools", "model"])
    graph.add_conditional_edges("model", should_continue, ["tools", END])
    graph.add_edge("tools", "model")
    return GraphAgent("planned", graph.compile(checkpointer), "model", model, tools, checkpointer, profile)
