"""Running a compiled LangGraph as a turn: its supersteps become events, and each of its endings a reason."""

import contextlib
import contextvars
import uuid
from collections.abc import Generator, Iterator
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphRecursionError
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateSnapshot

from agentkit.events import CheckpointSaved, GuardVerdict, StepEnded, StepStarted, emit
from agentkit.loops.agent import Agent, Turn, answer_of
from agentkit.loops.history import closed, is_answer
from agentkit.loops.state import fresh_turn
from agentkit.loops.stop import Cancelled, TurnEnded


class GraphAgent(Agent):
    """An agent whose loop is a graph over AgentState. `last_node` is where a finished turn ends."""

    def __init__(self, loop: str, graph: CompiledStateGraph, last_node: str, *args: Any):
        super().__init__(*args)
        # Bound to the graph, too: a lesson that runs `agent.graph` itself would else get LangGraph's 10007 steps.
        self.graph = graph.with_config({"recursion_limit": self.limit})
        self.loop, self.last_node = loop, last_node
        self._shells = {name for name, _ in graph.get_subgraphs()}  # nodes that are graphs: their inner steps count

    def _config(self, turn: Turn) -> dict:
        # The limit belongs at the top level: LangGraph ignores one inside `configurable` and then allows 10007 steps.
        config: dict = {"recursion_limit": self.limit, "callbacks": [turn.narrator]}
        if self.checkpointer is not None:
            # A run without a thread leaves nothing behind that another could meet.
            turn.thread = turn.thread or f"once-{uuid.uuid4().hex}"
            config["configurable"] = {"thread_id": turn.thread}
        return config

    def _turn(self, turn: Turn) -> tuple[str, str]:
        self._wait_for_others(turn)
        config = self._config(turn)
        given = self._given(turn, config)
        steps = _Steps(turn, self._shells, ["tasks", "values"] + ["checkpoints"] * (self.checkpointer is not None))
        # Sync: a superstep counts only once it is on disk, so a killed process loses none that it had shown.
        options = {} if self.checkpointer is None else {"durability": "sync"}
        token = _running.set(steps)
        try:
            steps.follow(self.graph.stream(given, config, stream_mode=steps.modes, **options))
        except GraphRecursionError:
            # LangGraph raises at the limit even if the last allowed step was the answer.
            if not (turn.messages and is_answer(turn.messages[-1])):
                text = _too_large(turn.messages, self.limit)
                emit(GuardVerdict(guard="recursion_limit", verdict="stop", detail=text))
                raise TurnEnded("limit", text) from None
        finally:
            _running.reset(token)
            steps.close()
        if steps.interrupts:
            return "interrupt", f"The run waits for a reply: {steps.interrupts[0].get('value')}"
        return answer_of(turn.messages)

    def _wait_for_others(self, turn: Turn) -> None:
        """Where the saver has leases, turns on one thread come one after the other: each sees what the last one said."""
        lease = getattr(self.checkpointer, "turn", None)
        if lease is None or turn.thread is None:
            return
        try:
            turn.alone.enter_context(lease(turn.thread, turn.cancel))
        except Exception:
            if turn.cancel.is_set():
                raise Cancelled from None
            raise

    def unfinished(self, thread: str) -> str | None:
        """The question of a turn that a killed process left unfinished on this thread, or None."""
        return self._open({"configurable": {"thread_id": thread}})[2]

    def _open(self, config: dict) -> tuple[list[BaseMessage], list[BaseMessage], str | None]:
        """The thread's messages as its graph holds them; with what an unfinished turn adds; and that turn's question."""
        state = self.graph.get_state(config)
        held = known = state.values.get("messages", [])
        if not state.next:
            return held, known, None
        state = self.graph.get_state(config, subgraphs=True)
        while inner := next((task.state for task in state.tasks if isinstance(task.state, StateSnapshot)), None):
            state = inner
        known = state.values.get("messages", held)
        # Tools that ended beside one that did not: their results are kept apart until the superstep is whole.
        done = [m for task in state.tasks for m in dict(_plain_writes(task.result or {})).get("messages", [])]
        question = next((str(m.text) for m in reversed(known) if isinstance(m, HumanMessage)), None)
        return held, add_messages(known, done), question

    def _given(self, turn: Turn, config: dict) -> dict | None:
        """The input of the turn: the question, and before it what the thread's history lacks; None to resume."""
        held, known, open_question = self._open(config) if self.checkpointer is not None else ([], [], None)
        # Who asks the same again after a crash wants the answer, not a second start.
        if turn.resumes or open_question == turn.question:
            turn.resumes, turn.messages = True, known
            return None
        question = HumanMessage(turn.question, id=str(uuid.uuid4()))
        valid = closed(known)
        turn.messages = [*valid, question]
        unchanged = [id(message) for message in valid] == [id(message) for message in held]
        messages = [question] if unchanged else [RemoveMessage(REMOVE_ALL_MESSAGES), *turn.messages]
        return {"messages": messages, **fresh_turn()}

    def _close(self, turn: Turn, answer: str, reason: str) -> None:
        # An answer needs nothing after it; an interrupt's open call is what the reply will answer. Without messages the
        # thread could not even be read, and must not be overwritten.
        with turn.alone:
            if reason in ("answer", "interrupt") or not turn.messages:
                return
            turn.messages = add_messages([], closed(turn.messages, answer, reason))
            if self.checkpointer is not None:
                update = {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), *turn.messages]}
                self.graph.update_state(self._config(turn), update, as_node=self.last_node)


def run_inside(graph: CompiledStateGraph, state: dict, config: RunnableConfig) -> dict:
    """Run a graph as one node of another; its supersteps become the steps of the turn. Returns its last state.

    LangGraph would stream a graph that is itself the node from a second thread, and its steps would be told too late.
    """
    steps = _running.get()
    if steps is None:  # somebody runs the graph without an agent
        return graph.invoke(state, config)
    return steps.follow(graph.stream(state, config, stream_mode=steps.modes))


class _Steps:
    """Turns LangGraph's stream into events: tasks of one node in one superstep are one step.

    A node that is a graph itself (`shells`) is no step of its own; the supersteps inside it are.
    """

    def __init__(self, turn: Turn, shells: set[str], modes: list[str]):
        self.turn, self.shells, self.modes, self.number = turn, shells, modes, 0
        self.interrupts: list[dict] = []
        self._open: dict[str, str] = {}  # task id: node
        self._changes: dict[str, list[tuple[str, dict]]] = {}  # node: its tasks' updates, in the order they began
        self._finished: list[BaseMessage] = []

    def follow(self, stream: Generator[tuple[str, Any]]) -> dict:
        """Take all that a graph streams; returns the last state. Raises Cancelled if the run is stopped between steps."""
        state: dict = {}
        with contextlib.closing(stream):
            for mode, payload in stream:
                self.take(mode, payload)
                if mode == "values":
                    state = payload
                    if self.turn.cancel.is_set():
                        raise Cancelled
        return state

    def take(self, mode: str, payload: Any) -> None:
        if mode == "values":
            # A resumed turn is first told as the outer graph knows it, which is less than what is known.
            if not (self.turn.resumes and self.number == 0):
                self.turn.messages, self._finished = list(payload.get("messages", [])), []
        elif mode == "checkpoints":
            place = payload["config"]["configurable"]
            emit(
                CheckpointSaved(
                    thread=place["thread_id"], checkpoint=place["checkpoint_id"], step=payload["metadata"]["step"]
                )
            )
        elif payload["name"] in self.shells:
            return
        elif "result" in payload or "error" in payload:
            self._end(payload)
        else:
            self._start(payload["id"], payload["name"])

    def _start(self, task: str, node: str) -> None:
        if not self._open:
            self.number += 1
        if node not in self._open.values():
            self._changes[node] = []
            emit(StepStarted(step=self.number, node=node))
        self._open[task] = node
        self._changes[node].append((task, {}))

    def _end(self, payload: dict) -> None:
        task, node = payload["id"], payload["name"]
        if self._open.pop(task, None) is None:
            return
        self.interrupts += payload.get("interrupts") or []
        change = {"error": str(payload["error"])} if payload.get("error") else dict(_plain_writes(payload["result"]))
        self._finished += [m for m in change.get("messages", []) if isinstance(m, BaseMessage)]
        self._changes[node] = [(id, change if id == task else old) for id, old in self._changes[node]]
        if node not in self._open.values():
            self._tell(node)

    def _tell(self, node: str) -> None:
        merged: dict = {}
        for _, change in self._changes.pop(node):
            for key, value in change.items():
                merged[key] = (
                    merged[key] + value if isinstance(merged.get(key), list) and isinstance(value, list) else value
                )
        emit(StepEnded(step=self.number, node=node, change={key: _json_ready(value) for key, value in merged.items()}))

    def close(self) -> None:
        """End the steps that a stop cut off, and keep what their finished tasks gave: tools ran, that is history."""
        for node in dict.fromkeys(self._open.values()):
            self._tell(node)
        self._open.clear()
        if self._finished:
            self.turn.messages = add_messages(
                self.turn.messages, [m for m in self._finished if not isinstance(m, RemoveMessage)]
            )


_running: contextvars.ContextVar[_Steps | None] = contextvars.ContextVar("agentkit_steps", default=None)


def _plain_writes(result: dict) -> Iterator[tuple[str, Any]]:
    """State updates by key; LangGraph folds several writes of one task into {"$writes": [...]}."""
    for key, value in result.items():
        if isinstance(value, dict) and "$writes" in value:
            value = [item for write in value["$writes"] for item in (write if isinstance(write, list) else [write])]
        yield key, value if isinstance(value, list) or key != "messages" else [value]


def _json_ready(value: Any) -> Any:
    if isinstance(value, BaseMessage):
        # The fields as they are: LangChain's own dump of a message costs more than the rest of the step's events.
        kept = {key: held for key, held in vars(value).items() if held not in (None, "", [], {})}
        return {"type": value.type, "content": value.content, **_json_ready(kept)}
    if isinstance(value, dict):
        return {str(key): _json_ready(held) for key, held in value.items()}
    if isinstance(value, list | tuple | set):
        return [_json_ready(held) for held in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _too_large(messages: list[BaseMessage], limit: int) -> str:
    """What the user reads at the limit: what happened so far, and how the task could be split."""
    done: dict[str, int] = {}
    start = max((i for i, m in enumerate(messages) if isinstance(m, HumanMessage)), default=0)
    for message in messages[start:]:
        for call in message.tool_calls if isinstance(message, AIMessage) else []:
            done[call["name"]] = done.get(call["name"], 0) + 1
    used = (
        ", ".join(f"{name} {count} times" if count > 1 else f"{name} once" for name, count in done.items()) or "no tool"
    )
    return (
        f"This task is too large for one turn: {limit} steps were used up ({used}) and there is no answer yet. "
        "Split it: ask for its first part alone, then for the next on the same thread, or name fewer items at once. "
        "A higher recursion_limit in the profile allows more steps."
    )
