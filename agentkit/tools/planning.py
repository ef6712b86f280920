"""The planning family. So far `create_plan`: the steps of a larger task, which the loop then keeps in its state."""

from typing import Annotated

from langchain_core.tools import BaseTool, StructuredTool

from agentkit.tools.base import ToolContext, ToolFailed, ToolSpec

MOST_STEPS = 20


def numbered(steps: list[str]) -> list[str]:
    """The steps as they are kept: on one line each, none empty. Raises ToolFailed if that leaves none, or too many."""
    kept = [" ".join(step.split()) for step in steps]
    kept = [step for step in kept if step]
    if not 0 < len(kept) <= MOST_STEPS:
        raise ToolFailed(f"{len(kept)} steps: give 1 to {MOST_STEPS}, each a short sentence")
    return kept


def create_plan_tool() -> BaseTool:
    """The LangChain tool. Its result is text for the model; the steps are the artifact, for a loop that keeps a state."""

    def create_plan(steps: Annotated[list[str], "The steps, in order"]) -> tuple[str, dict]:
        kept = numbered(steps)
        lines = "\n".join(f"{number}. {step}" for number, step in enumerate(kept, 1))
        return f"The plan is noted. Go on with step 1.\n{lines}", {"plan": kept}

    return StructuredTool.from_function(
        create_plan, description="Write down the steps of a large task.", response_format="content_and_artifact"
    )


def _make(context: ToolContext) -> BaseTool:
    return create_plan_tool()


TOOLS = (ToolSpec("create_plan", "planning", _make, touches="the state of the run"),)
