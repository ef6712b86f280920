"""`Agent`: what every loop offers. A run works in its own thread, and its events come out of a queue."""

import contextlib
import contextvars
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage

from agentkit.cancel import cancelled_by
from agentkit.events import Event, RunEnded, RunStarted, ToolReturned, emit, listening
from agentkit.loops.build import check_thread
from agentkit.loops.guards import Limits
from agentkit.loops.narrator import Narrator
from agentkit.loops.result import RunResult, Usage
from agentkit.loops.stop import GRACE, Cancelled, TurnEnded
from agentkit.models.errors import AgentkitError, BadField
from agentkit.models.profile import GenerationProfile

Events = Generator[Event, None, RunResult]


@dataclass
class Turn:
    """One run under way: what it was asked, what it cost so far, and the messages it has.

    `resumes`: it goes on with a turn that broke off, even if that means to ask nothing new. `narrator` is the LangChain callback handler to pass to the models of the turn.
    """

    question: str
    thread: str | None
    cancel: threading.Event
    resumes: bool = False
    usage: Usage = field(default_factory=Usage)
    messages: list[BaseMessage] = field(default_factory=list)
    alone: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)  # holds the thread's lease, if it has one
    narrator: Narrator = field(init=False)

    def __post_init__(self):
        self.narrator = Narrator(self.usage, self.cancel)

    def hear(self, event: Event) -> None:
        """Every event of the run passes here on its way out."""
        self.narrator.hear(event)
        # A malformed call is answered, too, but no tool ran and there is no time to tell.
        self.usage.tool_calls += isinstance(event, ToolReturned) and event.seconds is not None


class Agent(ABC):
    """A model, its tools and a way to go on between them. Made by `build_agent`."""

    loop: str

    def __init__(self, model: BaseChatModel, tools: list, checkpointer: Any, profile: GenerationProfile):
        self.model, self.tools, self.checkpointer, self.profile = model, tools, checkpointer, profile
        self.limit = profile.recursion_limit  # most steps of a run, as StepStarted counts them

    def run(
        self, question: str | None, thread: str | None = None, cancel: threading.Event | None = None
    ) -> RunResult:
        """Ask and wait. `thread` continues a conversation (needs a checkpointer); setting `cancel` stops the run.

        A turn that a killed process left unfinished goes on where it stood if the question is None, or the same again;
        another question begins a new turn. However the run ends, it ends with a RunResult; only bad arguments raise (AgentkitError).
        """
        run = self._stream(self._begun(question, thread, cancel), told=False)
        while True:
            try:
                next(run)
            except StopIteration as end:
                return end.value

    def stream(
        self, question: str | None, thread: str | None = None, cancel: threading.Event | None = None
    ) -> Events:
        """The run's events as they come, RunStarted first, RunEnded last; the RunResult is the generator's value.

        Closing the generator or setting `cancel` stops the run: a model within one token, a tool at once.
        """
        return self._stream(self._begun(question, thread, cancel), told=True)

    def _begun(self, question: str | None, thread: str | None, cancel: threading.Event | None) -> Turn:
        resumes = question is None and thread is not None
        if not resumes and (not isinstance(question, str) or not question.strip()):
            raise BadField("the question is empty; ask something")
        if thread is not None:
            check_thread(thread, self.loop)
            if self.checkpointer is None:
                raise BadField(f"thread {thread!r} cannot be continued: the agent has no checkpointer")
        if resumes and (question := self.unfinished(thread)) is None:
            raise BadField(f"thread {thread!r} has no unfinished turn to go on with; ask something")
        return Turn(question, thread, cancel or threading.Event(), resumes)

    def unfinished(self, thread: str) -> str | None:
        """The question of a turn that a killed process left unfinished on this thread, or None."""
        return None

    def _stream(self, turn: Turn, told: bool) -> Events:
        """`told`: the caller wants the events; else only the end wakes it."""
        events: queue.SimpleQueue[Event | RunResult | BaseException] = queue.SimpleQueue()
        context = contextvars.copy_context()
        worker = threading.Thread(
            target=context.run, args=(self._work, turn, events.put, told), name="agentkit-run", daemon=True
        )
        worker.start()
        try:
            while not isinstance(item := events.get(), RunResult | BaseException):
                yield item
            if isinstance(item, BaseException):
                raise item
            return item
        finally:
            turn.cancel.set()
            # Tools and models are given GRACE to end; a worker that still has to write the thread gets as much again.
            worker.join(2 * GRACE + 1)

    def _work(self, turn: Turn, put: Callable[[Any], None], told: bool) -> None:
        def hear(event: Event) -> None:
            turn.hear(event)
            if told:
                put(event)

        limits = Limits(self.profile.token_budget, self.profile.time_limit, turn.usage)
        with listening(hear), cancelled_by(turn.cancel), limits.watching(turn.cancel):
            try:
                put(self._result(turn, limits))
            except BaseException as problem:  # a listener of the caller's failed; without an end the queue would wait
                put(problem)

    def _result(self, turn: Turn, limits: Limits) -> RunResult:
        began, error = time.perf_counter(), None
        emit(
            RunStarted(
                loop=self.loop,
                model=model_name(self.model),
                question=turn.question,
                thread=turn.thread,
                limit=self.limit,
            )
        )
        try:
            reason, answer = self._turn(turn)
        except TurnEnded as end:
            if isinstance(end, Cancelled) and limits.over:
                end = limits.over  # the clock stops a run as a user does
            reason, answer = end.reason, str(end)
        except BaseException as problem:
            reason, error = "error", problem
            answer = str(problem) if isinstance(problem, AgentkitError) else f"{type(problem).__name__}: {problem}"
        try:
            self._close(turn, answer, reason)
        except Exception as problem:
            # The next question on the thread repairs it again, so what the user waits for is not lost.
            error = error or problem
        result = RunResult(
            answer, turn.messages, reason, turn.usage.as_dict(), round(time.perf_counter() - began, 3), error
        )
        emit(RunEnded(reason=reason, answer=answer, usage={**result.usage, "seconds": result.seconds}))
        return result

    @abstractmethod
    def _turn(self, turn: Turn) -> tuple[str, str]:
        """Run one turn, keeping `turn.messages` current. Returns the reason it ended and the answer, or raises."""

    @abstractmethod
    def _close(self, turn: Turn, answer: str, reason: str) -> None:
        """Leave `turn.messages`, and the thread, in a valid form after the turn has ended."""


def answer_of(messages: list[BaseMessage]) -> tuple[str, str]:
    """Why a turn ended that ran to its end, and its answer, read from the last message."""
    spoken = next((message for message in reversed(messages) if isinstance(message, AIMessage)), AIMessage(""))
    if spoken.invalid_tool_calls and not spoken.tool_calls:
        return "malformed", (
            "The model could not write a well-formed tool call, though it was told what was wrong. "
            "Ask in other words, or choose a larger model."
        )
    return "answer", str(messages[-1].text)


def model_name(model: BaseChatModel) -> str:
    """What to call a chat model: backends keep their names in different fields."""
    names = (getattr(model, key, None) for key in ("name", "model_name", "model"))
    return next((name for name in names if isinstance(name, str) and name), type(model).__name__)


def own_profile(model: BaseChatModel) -> GenerationProfile:
    """The profile a local model carries; the default for every other."""
    profile = getattr(model, "profile", None)
    return profile if isinstance(profile, GenerationProfile) else GenerationProfile()
