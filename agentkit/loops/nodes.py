"""The two nodes of a ReAct loop and the edge between them, for graphs that are put together by hand."""

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.graph import END
from langgraph.prebuilt import ToolNode, ToolRuntime
from langgraph.prebuilt.tool_node import ToolInvocationError
from langgraph.runtime import Runtime
from langgraph.types import Send

from agentkit.loops.calls import ask, error_text, run_tool
from agentkit.loops.history import calls_of, this_turn
from agentkit.loops.state import AgentState, as_update


def model_node(model: BaseChatModel, tools: Sequence[BaseTool]) -> Callable[[AgentState], dict]:
    """The node that asks the model, with the tools shown to it and the state's plan, if any, in front."""
    speaking = model.bind_tools(tools) if tools else model

    def node(state: AgentState) -> dict:
        return {"messages": ask(state["messages"], lambda messages: speaking.invoke([*_plan(state), *messages]))}

    return node


def tools_node(tools: Sequence[BaseTool]) -> ToolNode:
    """The node that runs one call; errors become results, guards and interrupts pass."""

    def careful(request: Any, execute: Callable[[Any], Any]) -> Any:
        return as_update(run_tool(request.tool_call, request.state["messages"], lambda: execute(request)))

    return OneCall(tools, handle_tool_errors=told_to_the_model, wrap_tool_call=careful)


class OneCall(ToolNode):
    """A ToolNode for tasks of one call each. It works in the thread it is in; ToolNode would start a pool for each."""

    def _func(self, input: Any, config: RunnableConfig, runtime: Runtime) -> Any:
        (call,), kind = self._parse_input(input)
        given = ToolRuntime(
            state=self._extract_state(input, config),
            tool_call_id=call["id"],
            config=config,
            context=runtime.context,
            store=runtime.store,
            stream_writer=runtime.stream_writer,
            tools=list(self.tools_by_name.values()),
        )
        return self._combine_tool_outputs([self._run_one(call, kind, given)], kind)


def told_to_the_model(error: Exception) -> str:
    """What the model reads of an error. LangGraph's default lets a tool's own exception end the run."""
    return error.message if isinstance(error, ToolInvocationError) else error_text(error)


def should_continue(state: AgentState) -> list[Send] | str:
    """To the tools if the last message asks for some, else to the end.

    Each call is a task of its own: what one has done is kept if another one fails.
    """
    return [Send("tools", [call]) for call in open_calls(state["messages"])] or END


def open_calls(messages: Sequence[BaseMessage]) -> list[dict]:
    """The last message's calls that have no result yet."""
    answered = set()
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AIMessage):
            return [{**call, "type": "tool_call"} for call in message.tool_calls if call["id"] not in answered]
        else:
            break
    return []


def _plan(state: AgentState) -> list[SystemMessage]:
    """The plan as the model sees it, unless it stands in the history as a call of `create_plan`."""
    steps = state.get("plan")
    if not steps or any("create_plan" in calls_of(message).values() for message in this_turn(state["messages"])):
        return []
    lines = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1))
    return [SystemMessage(f"Follow this plan, one step after the other, and answer when it is done:\n{lines}")]
