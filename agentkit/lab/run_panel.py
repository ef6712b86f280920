"""The Run panel: a prompt, a temperature, Run and Stop, and the run as it happens.

A run works in its own thread and the cell that shows the panel returns at once. Events are collected there and drawn
about ten times a second; nothing is printed from a worker. `ask()` is the blocking call for CI.
"""

import html
import threading
import time

import ipywidgets as widgets

from agentkit.events import Event, PrefixReuse, RunEnded, Token, ToolCalled, ToolReturned
from agentkit.loops.agent import Agent
from agentkit.loops.result import RunResult
from agentkit.models.profile import GenerationProfile

REFRESH = 0.1


class RunPanel(widgets.VBox):
    """Ask an agent from a widget. `agent_for(profile)` makes the agent under the profile the widgets show.

    `result` is the last finished run's RunResult (None before the first).
    """

    def __init__(self, agent_for, question: str = "", profile: GenerationProfile | None = None):
        self._agent_for, self._profile = agent_for, profile or GenerationProfile()
        self.result: RunResult | None = None
        self._cancel = threading.Event()
        self._worker: threading.Thread | None = None
        limits = GenerationProfile.ranges()["temperature"]
        wide = widgets.Layout(width="100%")
        self.prompt = widgets.Textarea(value=question, placeholder="Ask something", layout=wide, rows=2)
        self.temperature = widgets.FloatSlider(value=self._profile.temperature, min=limits["low"], max=limits["high"], step=0.05,
                                               description="temperature", style={"description_width": "initial"},
                                               continuous_update=False, tooltip=limits["help"])
        self.run_button = widgets.Button(description="Run", button_style="primary", icon="play")
        self.stop_button = widgets.Button(description="Stop", icon="stop", disabled=True)
        self.view = widgets.HTML(value=_page([], "Nothing has run yet."))
        self.run_button.on_click(lambda _: self.start())
        self.stop_button.on_click(lambda _: self.stop())
        super().__init__([self.prompt, widgets.HBox([self.temperature, self.run_button, self.stop_button]), self.view])

    def start(self) -> None:
        """Begin a run in the background; does nothing while one is under way."""
        if self._worker and self._worker.is_alive():
            return
        self._cancel = threading.Event()
        self.run_button.disabled, self.stop_button.disabled = True, False
        self._worker = threading.Thread(target=self._work, name="agentkit-panel", daemon=True)
        self._worker.start()

    def stop(self) -> None:
        """Ask the run to end; the model stops within one token."""
        self._cancel.set()

    def ask(self, question: str | None = None, timeout: float = 300) -> RunResult:
        """Run and wait. Raises TimeoutError after `timeout` seconds, having asked the run to stop."""
        if question is not None:
            self.prompt.value = question
        self.start()
        self._worker.join(timeout)
        if self._worker.is_alive():
            self.stop()
            raise TimeoutError(f"the run was not over after {timeout:g} s and was asked to stop")
        return self.result

    def _work(self) -> None:
        lines = _Lines()
        try:
            agent: Agent = self._agent_for(self._profile.but(temperature=self.temperature.value))
            events, drawn = agent.stream(self.prompt.value, cancel=self._cancel), 0.0
            while True:
                try:
                    lines.take(next(events))
                except StopIteration as end:
                    self.result = end.value
                    break
                if time.monotonic() - drawn >= REFRESH:
                    self.view.value, drawn = _page(lines.rows, "running …"), time.monotonic()
            self.view.value = _page(lines.rows, lines.footer)
        except Exception as error:  # noqa: BLE001 - a worker has nobody else to tell
            self.view.value = _page([*lines.rows, ("error", str(error))], "not run")
        finally:
            self.run_button.disabled, self.stop_button.disabled = False, True

    def __repr__(self) -> str:
        return f"RunPanel(temperature={self.temperature.value:g}, prompt={self.prompt.value!r})"


class _Lines:
    """The rows of a run, kept short: tokens grow the last row, everything else adds one."""

    def __init__(self):
        self.rows: list[tuple[str, str]] = []
        self.footer = ""

    def take(self, event: Event) -> None:
        match event:
            case Token(text=text, channel=channel):
                kind = {"answer": "model", "thought": "thought", "call": "writes"}[channel]
                if not self.rows or self.rows[-1][0] != kind:
                    self.rows.append((kind, ""))
                self.rows[-1] = (kind, self.rows[-1][1] + text)
            case ToolCalled(name=name, args=args, invalid=invalid):
                if self.rows and self.rows[-1][0] == "writes":
                    self.rows.pop()
                shown = ", ".join(f"{key}={value!r}" for key, value in args.items())
                self.rows.append(("refused", invalid) if invalid else ("call", f"{name}({shown})"))
            case ToolReturned(content=content, status=status):
                self.rows.append(("result" if status == "success" else "error", content))
            case PrefixReuse(prompt=prompt, reused=reused):
                self.rows.append(("prompt", f"{prompt} tokens, {reused} of them reused"))
            case RunEnded(reason=reason, answer=answer, usage=usage):
                if not any(kind == "model" and text.strip() == answer.strip() for kind, text in self.rows):
                    self.rows.append(("model", answer))
                rate = usage.get("tokens_per_second")
                speed = f", {rate:.0f} tokens a second" if rate else ""
                self.footer = f"ended: {reason}; {usage.get('generated_tokens', 0)} tokens{speed}"


def _page(rows: list[tuple[str, str]], footer: str) -> str:
    colours = {"model": "#4b7f52", "thought": "#888", "writes": "#b08a3e", "call": "#8a5a00", "result": "#6b4e9b",
               "prompt": "#888", "error": "#b3261e", "refused": "#b3261e"}
    body = "".join(
        f'<div style="display:flex;gap:10px;line-height:1.45"><span style="flex:0 0 64px;text-align:right;color:{colours[kind]};'
        f'font-weight:600">{kind}</span><span dir="auto" style="flex:1;white-space:pre-wrap;overflow-wrap:anywhere">{html.escape(text)}</span></div>'
        for kind, text in rows)
    return f'<div style="max-width:860px;font-size:13px">{body}<div style="color:#666;margin-top:4px">{html.escape(footer)}</div></div>'
