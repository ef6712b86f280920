"""The `lite` loop: LangGraph's prebuilt agent, one node for the model, one for the tools.

`create_agent` alone ends in silence on a malformed call, a tool's exception ends the run, and a model may repeat itself
for ever. All three are put right here, inside its two nodes, so that the graph stays the one its picture shows.
"""

from collections.abc import Callable
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse

from agentkit.loops.calls import ask, run_tool
from agentkit.loops.graph import GraphAgent
from agentkit.loops.state import AgentState, as_update


class Careful(AgentMiddleware):
    """Tells calls and results as events, has malformed calls corrected, guards, and turns tool errors into results."""

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]) -> ModelResponse:
        def invoke(messages: list) -> Any:
            return handler(request.override(messages=messages)).result[-1]

        return ModelResponse(result=ask(request.messages, invoke))

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        return as_update(run_tool(request.tool_call, request.state["messages"], lambda: handler(request)))


def build(model: Any, tools: list, checkpointer: Any, profile: Any) -> GraphAgent:
    """The agent; `build_agent` checks the arguments."""
    graph = create_agent(model, tools, middleware=[Careful()], state_schema=AgentState, checkpointer=checkpointer)
    return GraphAgent("lite", graph, "model", model, tools, checkpointer, profile)
