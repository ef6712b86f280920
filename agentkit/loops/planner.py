"""The planner: a model call of its own that sorts a question, and an intercept that needs no model.

Code owns what must not fail: whatever the model answers, a plan comes out of it, and "simple" is one. Planning never
ends a turn.
"""

import json
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp

from agentkit import events
from agentkit.loops import guards
from agentkit.loops.calls import announced, answered
from agentkit.loops.state import AgentState
from agentkit.models.errors import BadField

MOST_STEPS = 8
LONGEST_STEP = 200
PROMPT = (
    "You sort requests; you do not answer them. A request is simple if one answer or one tool call will do, and complex "
    "if it needs several steps that build on each other. Call plan with kind and, if complex, 2 to 8 short steps."
)
# Hidden: no tool node knows it. Its schema is what the planner's answer must look like; a local model that decodes
# under a grammar can write nothing else.
PLAN_TOOL = {
    "type": "function",
    "function": {
        "name": "plan",
        "description": "Sort the request.",
        "parameters": {
            "type": "object",
            "properties": {
                "kind": {"type": "string", "enum": ["simple", "complex"]},
                "steps": {"type": "array", "items": {"type": "string"}, "maxItems": MOST_STEPS},
            },
            "required": ["kind", "steps"],
        },
    },
}
# The verb must command, at the beginning; "what is research" and "he researched" are no such requests.
_RESEARCH = re.compile(
    r"^\W*(?:(?:please|can you|could you|would you|i want you to|i need you to|/research)\W+)*"
    r"(?:(?:do|carry out|conduct)\s+(?:(?:some|a|an|the|deep|thorough|in-depth|more)\s+)*research\s+(?:on|into|about)"
    r"|(?:thoroughly\s+|deeply\s+)?(?:research|investigate)(?!\w)(?!\s+(?:is|was|are|has|shows|suggests|says)\b)"
    r"|write\s+(?:me\s+)?(?:a|an)\s+(?:\w+\s+)?research\s+report\s+(?:on|about)"
    r"|find\s+out\s+everything\s+about)[\s:]*(?P<topic>[^\s:].*)",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class Plan:
    """How a question was sorted: "simple", "complex" or "research", what decided it, and the steps (simple has none)."""

    kind: str
    why: str
    steps: list[str] = field(default_factory=list)


class Planner:
    """Sorts the question of a turn and writes the plan into the state, as a call of `create_plan` where that exists."""

    def __init__(self, model: BaseChatModel, tools: Sequence[BaseTool]):
        self.model = model
        self.has_tool = any(tool.name == "create_plan" for tool in tools)

    def node(self, state: AgentState) -> dict:
        """The graph node: the state update for the question that the messages end with."""
        question = next((str(m.text) for m in reversed(state["messages"]) if isinstance(m, HumanMessage)), "")
        plan = intercepted(question) or self.asked(question)
        update: dict = {"kind": plan.kind, "why": plan.why}
        if not plan.steps or not self.has_tool:
            return update | {"plan": plan.steps}
        call = {"name": "create_plan", "args": {"steps": plan.steps}, "id": f"plan_{uuid.uuid4().hex[:8]}"}
        message, _ = announced(AIMessage("", tool_calls=[call]))
        return update | {"messages": [message]}

    def asked(self, question: str) -> Plan:
        """The plan that the model makes of a question."""
        messages = [SystemMessage(PROMPT), HumanMessage(question)]
        guards.before_model()
        try:
            return read_plan(self._answer(messages))
        except GraphBubbleUp:
            raise
        except Exception as error:  # if it is serious, the loop's own call fails, too, and ends the turn with it
            return Plan("simple", f"the planner could not be asked: {type(error).__name__}: {error}"[:LONGEST_STEP])

    def _answer(self, messages: list[BaseMessage]) -> AIMessage:
        # What the planner writes is no part of the answer, so views see it as a thought.
        with events.retold(_as_thought):
            try:
                bound = self.model.bind_tools([PLAN_TOOL], tool_choice="plan")
                return answered(lambda: bound.invoke(messages))
            except Exception as error:
                # Models without constrained decoding and some servers refuse a named tool; they may still call it.
                if not isinstance(error, BadField) and getattr(error, "status_code", None) not in (400, 422):
                    raise
            bound = self.model.bind_tools([PLAN_TOOL])
            return answered(lambda: bound.invoke(messages))


def intercepted(question: str) -> Plan | None:
    """The plan for a clear request for research, made by code alone; None for any other question."""
    found = _RESEARCH.match(question)
    if not found:
        return None
    topic = " ".join(found["topic"].split()).rstrip(".!? ")
    topic = topic if len(topic) <= LONGEST_STEP // 2 else topic[: LONGEST_STEP // 2 - 1] + "…"
    steps = [
        f"Search for sources about {topic}",
        "Read the sources that say most",
        "Compare what they say; note where they disagree",
        "Answer with the sources named",
    ]
    return Plan("research", "the request asks for research in so many words", steps)


def read_plan(message: AIMessage) -> Plan:
    """The plan in a planner's answer: its call, or JSON in its text. Anything unreadable is simple."""
    made = next((call["args"] for call in message.tool_calls if call["name"] == "plan"), None)
    made = made if made is not None else _json_in(str(message.text))
    if not isinstance(made, dict) or made.get("kind") not in ("simple", "complex"):
        return Plan("simple", "the planner's answer could not be read")
    if made["kind"] == "simple":
        return Plan("simple", "the planner said so")
    given = made["steps"] if isinstance(made.get("steps"), list) else []
    steps = [" ".join(step.split())[:LONGEST_STEP] for step in given if isinstance(step, str)]
    steps = list(dict.fromkeys(step for step in steps if step))[:MOST_STEPS]
    if len(steps) < 2:
        return Plan("simple", "the planner said complex and named fewer than two steps")
    return Plan("complex", "the planner said so", steps)


def _json_in(text: str) -> Any:
    start, end = text.find("{"), text.rfind("}")
    try:
        return json.loads(text[start : end + 1]) if start >= 0 else None
    except ValueError:
        return None


def _as_thought(event: events.Event) -> events.Event:
    return replace(event, channel="thought") if isinstance(event, events.Token) else event
