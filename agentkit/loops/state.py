"""The state that every graph loop shares: the messages, and what the planner made of the question."""

from typing import Annotated, Any, TypedDict

from langchain_core.messages import AnyMessage, ToolMessage
from langgraph.graph.message import add_messages
from langgraph.types import Command


def latest(old: Any, new: Any) -> Any:
    """Reducer: the later value counts. Without one, two writes in one superstep (parallel tools) are an error."""
    return new


class AgentState(TypedDict, total=False):
    """`messages` grows (`add_messages`: a known id is replaced, any other message is put at the end).

    The rest belongs to one turn: `kind` is how the planner sorted the question ("simple", "complex" or "research"; empty
    without a planner), `why` what decided it, `plan` the steps.
    """

    messages: Annotated[list[AnyMessage], add_messages]
    kind: Annotated[str, latest]
    why: Annotated[str, latest]
    plan: Annotated[list[str], latest]


def fresh_turn() -> dict:
    """What a new question resets: the plan of the last turn must not steer this one."""
    return {"kind": "", "why": "", "plan": []}


def as_update(result: Any) -> Any:
    """A tool's result as the graph takes it: one whose artifact holds a plan sets the state's `plan`, too.

    The tool itself returns text and knows no state, so that a loop without a graph can run it as well.
    """
    artifact = result.artifact if isinstance(result, ToolMessage) else None
    if isinstance(artifact, dict) and isinstance(artifact.get("plan"), list):
        return Command(update={"messages": [result], "plan": artifact["plan"]})
    return result
