"""`Workbench`: a model, tools and a loop, run from a notebook, with panels that show what happens.

A run works in its own thread and the cell returns at once; `ask` is the call that waits. Panels are views of the run's
events and nothing else, so a recording replayed into them shows the same.
"""

import contextlib
import contextvars
import importlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ipywidgets as widgets
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

from agentkit.events import Event
from agentkit.lab.graph_shape import shape_of
from agentkit.lab.recording import Recording
from agentkit.lab.settings import Settings
from agentkit.lab.stage import Stage
from agentkit.loops.agent import Agent
from agentkit.loops.build import build_agent
from agentkit.loops.result import RunResult
from agentkit.models.errors import AgentkitError, BadField
from agentkit.models.profile import GenerationProfile
from agentkit.models.scripted import ScriptedChatModel

# Panel: module and class. Each takes the workbench as its only argument.
PANELS = {
    "run": ("run_panel", "RunPanel"),
    "graph": ("graph_panel", "GraphPanel"),
    "messages": ("messages_panel", "MessagesPanel"),
    "faults": ("faults_panel", "FaultsPanel"),
}


class Workbench:
    """Runs one agent at a time and shows it.

    `model` is a name that `load_model` takes, or any chat model; `models` are further names to choose from. `thread`
    continues a conversation and needs a `checkpointer`. `fault`, if set, changes model, tools and profile of the next
    run (see `agentkit.lab.faults`).
    `result` is the last run's RunResult, `events` are its events, `agent` is the agent that ran, `problem` says why
    there was no run.
    """

    def __init__(
        self,
        model: BaseChatModel | str = "bundled",
        tools: Sequence[BaseTool] = (),
        loop: str = "react",
        *,
        question: str = "",
        thread: str | None = None,
        checkpointer: Any = None,
        models: Sequence[str] = (),
        profile: GenerationProfile | None = None,
    ):
        self.settings = Settings(model, tools, loop, question, models, profile)
        self.thread, self.checkpointer = thread, checkpointer
        self.fault: Any = None
        self.stage = Stage()
        self.agent: Agent | None = None
        self.result: RunResult | None = None
        self.events: list[Event] = []
        self.graph: dict | None = None  # shape of the graph that was run or replayed last
        self.phase, self.problem = "", ""  # phase: "loading", "running" or "replaying" while something goes on
        self._panels: dict[str, widgets.Widget] = {}
        self._gate = threading.Lock()  # held while a run or a replay is under way
        self._now = _Run()
        self._now.done.set()
        self.settings.observe(self._redraw, ["loop", "tools"])

    run_panel = property(lambda self: self.panel("run"), doc="Ask, choose and set; the run as it happens.")
    graph_panel = property(lambda self: self.panel("graph"), doc="The agent's graph, lit while it runs.")
    messages_panel = property(lambda self: self.panel("messages"), doc="Messages, calls and results as a timeline.")
    faults_panel = property(lambda self: self.panel("faults"), doc="Break the next run on purpose.")

    @property
    def busy(self) -> bool:
        """Whether a run or a replay is under way."""
        return bool(self.phase)

    @property
    def profile(self) -> GenerationProfile:
        """The profile of the next run. BadField if the panel holds a value that is not allowed."""
        return self.settings.profile()

    @profile.setter
    def profile(self, profile: GenerationProfile) -> None:
        self.settings.set(profile)

    def panel(self, name: str) -> widgets.Widget:
        """The panel of that name, made when it is first asked for. It shows the last run if there was one."""
        if name not in PANELS:
            raise BadField(f"panel {name!r} is unknown; known are {', '.join(PANELS)}")
        with self.stage.lock:
            if name not in self._panels:
                module, kind = PANELS[name]
                made = getattr(importlib.import_module(f"agentkit.lab.{module}"), kind)(self)
                self._panels[name] = made
                # Before the first run a graph can be drawn already.
                self.stage.join(made, self.graph or self._outline(), self.events)
            return self._panels[name]

    def panels(self, *names: str) -> widgets.VBox:
        """Panels below one another, in the order named; all without a name."""
        return Column([self.panel(name) for name in names or PANELS])

    def build(self) -> Agent:
        """The agent that the next run would use. Raises AgentkitError where the choices do not work."""
        profile, tools = self.profile, self.settings.chosen_tools()
        model = self.settings.load(profile)
        if self.fault is not None:
            model, tools, profile = self.fault.apply(model, tools, profile)
        return build_agent(
            self.settings.loop, model=model, tools=tools, checkpointer=self.checkpointer, profile=profile
        )

    def start(self, question: str | None = None) -> bool:
        """Begin a run in the background; False if one is under way. What goes wrong is shown in the panel."""
        return self._begin(self._run, question) is not None

    def stop(self) -> None:
        """Ask the run, or the replay, to end: a model stops within one token, a tool at once."""
        self._now.cancel.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of the run; False if it is not over after `timeout` seconds."""
        return self._now.done.wait(timeout)

    def ask(self, question: str | None = None, timeout: float = 300) -> RunResult:
        """Run and wait. Raises what kept the run from beginning, and TimeoutError, having asked the run to stop.

        If another run is under way: AgentkitError.
        """
        # Its own run is kept in hand: as soon as it is over, somebody else may begin the next one.
        run = self._begin(self._run, question)
        if run is None:
            raise AgentkitError("a run is under way: wait() for its end or stop() it, then ask again")
        try:
            over = run.done.wait(timeout)
        except BaseException:  # the kernel was interrupted
            run.cancel.set()
            raise
        if not over:
            run.cancel.set()
            raise TimeoutError(f"the run was not over after {timeout:g} s and was asked to stop")
        if run.failure is not None:
            raise run.failure
        return run.result

    def recording(self) -> Recording:
        """The last run (or replay), to be saved. AgentkitError if there is none yet, or it is not over."""
        if self.busy:
            raise AgentkitError("the run is not over: wait() for its end or stop() it, then take the recording")
        if not self.events:
            raise AgentkitError("nothing has run yet, so there is nothing to record: ask() something first")
        return Recording(self.events, self.graph)

    def replay(self, recording: Recording, speed: float | None = None) -> None:
        """Show a recording in the same panels: at once, or in the background at `speed` times its own pace.

        AgentkitError if a run is under way; BadField for a speed that is not above 0.
        """
        if speed is not None and not speed > 0:
            raise BadField(f"speed is {speed!r}; allowed is above 0 (1: as it happened, None: at once)")
        run = self._begin(lambda now: self._replay(now, recording, speed))
        if run is None:
            raise AgentkitError("a run is under way: wait() for its end or stop() it, then replay")
        if speed is None:
            run.done.wait()

    def _outline(self) -> dict | None:
        """The shape of the chosen loop's graph, without loading a model: a graph does not depend on it."""
        try:
            choice = self.settings
            return shape_of(build_agent(choice.loop, model=ScriptedChatModel(), tools=choice.chosen_tools()))
        except Exception:  # noqa: BLE001 - what is wrong with the choices is told when they are run
            return None

    def _redraw(self, _: object) -> None:
        with self.stage.lock:
            if "graph" in self._panels and not self.busy:
                self.graph_panel.begin(self._outline())
                self.graph_panel.flush()

    def _begin(self, work: "Callable[[_Run], None]", question: str | None = None) -> "_Run | None":
        if not self._gate.acquire(blocking=False):
            return None
        try:
            run = self._now = _Run()
            self.phase, self.problem, self.result = "loading", "", None
            if question is not None:
                self.settings.question = question
            context = contextvars.copy_context()
            worker = threading.Thread(
                target=context.run, args=(self._work, work, run), name="agentkit-bench", daemon=True
            )
            self.stage.flush()
            worker.start()
        except BaseException:
            self.phase = ""
            self._now.done.set()
            self._gate.release()
            raise
        return run

    def _work(self, work: "Callable[[_Run], None]", run: "_Run") -> None:
        try:
            with self.stage.drawing():
                work(run)
        except BaseException as error:  # noqa: BLE001 - a worker has nobody else to tell
            run.failure = error
            self.problem = str(error) if isinstance(error, AgentkitError) else f"{type(error).__name__}: {error}"
        finally:
            self.phase, self.result = "", run.result
            self.stage.flush()
            self._gate.release()
            run.done.set()

    def _run(self, now: "_Run") -> None:
        self.agent = self.build()
        run = self.agent.stream(self.settings.question, self.thread, now.cancel)
        self.phase = "running"
        self._show(shape_of(self.agent))
        with contextlib.closing(run):
            while True:
                try:
                    event = next(run)
                except StopIteration as end:
                    now.result = end.value
                    return
                self._hear(event)

    def _replay(self, now: "_Run", recording: Recording, speed: float | None) -> None:
        self.phase = "replaying"
        self._show(recording.graph)
        began, first = time.monotonic(), recording.events[0].at
        for event in recording.events:
            if speed is not None and now.cancel.wait(max(0, (event.at - first) / speed - (time.monotonic() - began))):
                return
            self._hear(event)

    def _show(self, graph: dict | None) -> None:
        # One lock, so that a panel that joins now sees each event exactly once.
        with self.stage.lock:
            self.graph, self.events = graph, []
            self.stage.begin(graph)

    def _hear(self, event: Event) -> None:
        with self.stage.lock:
            self.events.append(event)
            self.stage.take(event)

    def __repr__(self) -> str:
        return f"Workbench(model={self.settings.model!r}, loop={self.settings.loop!r}, tools={list(self.settings.tools)})"


@dataclass
class _Run:
    """One run or replay: whoever began it waits on `done`."""

    done: threading.Event = field(default_factory=threading.Event)
    cancel: threading.Event = field(default_factory=threading.Event)
    result: RunResult | None = None
    failure: BaseException | None = None


class Column(widgets.VBox):
    """Panels below one another."""

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.children))
