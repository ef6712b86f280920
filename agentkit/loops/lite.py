"""The `lite` loop: LangGraph's prebuilt agent, one node for the model, one for the tools.

`create_agent` alone ends in silence on a malformed call, and a tool's exception ends the run. Both are put right here,
inside its two nodes, so that the graph stays the one its picture shows.
"""

from collections.abc import Callable
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, ToolMessage

from agentkit import cancel
from agentkit.loops.calls import RETRIES, announced, run_tool
from agentkit.loops.graph import GraphAgent
from agentkit.loops.narrator import Abort
from agentkit.loops.stop import Cancelled, or_cancelled


class Careful(AgentMiddleware):
    """Tells calls and results as events, has malformed calls corrected, and turns tool errors into results."""

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]) -> ModelResponse:
        written: list = []
        for _ in range(RETRIES + 1):
            answer = _asked(request, handler)
            message, feedback = announced(answer)
            written += [message, *feedback]
            # With a sound call among the malformed ones the turn goes on: it runs, and the model reads all results.
            if message.tool_calls or not feedback:
                break
            request = request.override(messages=[*request.messages, message, *feedback])
        return ModelResponse(result=written)

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> ToolMessage:
        return run_tool(request.tool_call, lambda: handler(request))


def _asked(request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]) -> AIMessage:
    try:
        answer = or_cancelled(lambda: handler(request)).result[-1]
    except Abort:
        raise Cancelled from None
    if cancel.current().is_set():
        raise Cancelled  # a local model returns what it had; half an answer is none
    return answer


def build(model: Any, tools: list, checkpointer: Any, profile: Any) -> GraphAgent:
    """The agent; `build_agent` checks the arguments."""
    graph = create_agent(model, tools, middleware=[Careful()], checkpointer=checkpointer)
    return GraphAgent("lite", graph, "model", model, tools, checkpointer, profile)
