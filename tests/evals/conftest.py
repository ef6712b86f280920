"""A chat model that replays given messages: the scorers are tested here, not a model."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field


class Replay(BaseChatModel):
    """Answers with `answer(messages, tools)` and keeps what it was asked."""

    answer: Callable[[list[BaseMessage], list[dict]], AIMessage]
    asked: list[list[BaseMessage]] = Field(default_factory=list)
    tools: list[dict] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "replay"

    def bind_tools(self, tools: list[dict], **kwargs: Any) -> "Replay":
        self.tools = tools
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.asked.append(messages)
        return ChatResult(generations=[ChatGeneration(message=self.answer(messages, self.tools))])


@pytest.fixture
def replay():
    """Makes a model from the messages it is to give, in order, or from a function of (messages, tools)."""

    def make(*messages: AIMessage, answer: Callable | None = None) -> Replay:
        queue = list(messages)
        return Replay(answer=answer or (lambda asked, tools: queue.pop(0)))

    return make


@pytest.fixture
def calls():
    """Makes an AIMessage from (name, arguments) pairs; keywords go to the message."""

    def make(*pairs: tuple[str, dict], **more: Any) -> AIMessage:
        made = [{"name": name, "args": args, "id": f"c{i}"} for i, (name, args) in enumerate(pairs)]
        return AIMessage(**{"content": "", "tool_calls": made, **more})

    return make
