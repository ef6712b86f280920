"""The Run panel: a prompt, what to run it with, Run and Stop, and the run as it happens."""

import sys
import time

import ipywidgets as widgets
import psutil
import traitlets

from agentkit.lab.profile_form import ProfileForm
from agentkit.lab.run_story import RunStory
from agentkit.lab.story_panel import StoryPanel

_SLOW = 0.5  # seconds between two looks at speed and memory


class RunPanel(StoryPanel):
    """Made by `Workbench.run_panel`. Its widgets are linked to the workbench's settings; its view is `live`.

    A click only begins a run or asks it to stop; everything else happens in the run's own thread.
    """

    def __init__(self, bench):
        super().__init__(bench, RunStory(), "The run")
        settings = bench.settings
        small = widgets.Layout(width="110px")
        self.prompt = widgets.Textarea(placeholder="Ask something", layout=widgets.Layout(width="auto"), rows=2)
        self.run_button = widgets.Button(description="Run", button_style="primary", icon="play", layout=small)
        self.stop_button = widgets.Button(description="Stop", icon="stop", disabled=True, layout=small)
        near = {"style": {"description_width": "initial"}, "layout": widgets.Layout(width="auto", margin="2px 2px 2px 18px")}
        self.model = widgets.Dropdown(options=settings.models, description="model", **near)
        self.loop = widgets.Dropdown(options=settings.loops, description="loop", **near)
        for name, widget in (("question", self.prompt), ("model", self.model), ("loop", self.loop)):
            traitlets.link((settings, name), (widget, "value"))
        self.tools = {tool.name: _toggle(tool, tool.name in settings.tools) for tool in settings.all_tools}
        for toggle in self.tools.values():
            toggle.observe(self._toggled, "value")
        settings.observe(self._show_tools, "tools")
        self.form = ProfileForm(settings)
        self._looked, self._slow_words = 0.0, []
        self.run_button.on_click(lambda _: bench.start())
        self.stop_button.on_click(lambda _: bench.stop())
        line = widgets.Layout(flex_flow="row wrap", align_items="center")
        head = widgets.HBox([self.run_button, self.stop_button, self.model, self.loop], layout=line)
        tools = [widgets.HBox([widgets.Label("tools"), *self.tools.values()], layout=line)] if self.tools else []
        self.children = [self.prompt, head, *tools, self.form.often, self.form.rest, self.live]

    def flush(self) -> None:
        """Draw what changed."""
        busy = self.bench.busy
        self.run_button.disabled, self.stop_button.disabled = busy, not busy
        self.live.status(self.story.share() if busy else None, " · ".join(filter(None, self._words())))
        super().flush()

    def text(self) -> str:
        """What the panel shows of the run, as plain text; before the first run, and where it could not begin, why."""
        return self.bench.problem or super().text()

    def _words(self) -> list[str]:
        bench = self.bench
        if bench.problem:
            return [f"not run: {bench.problem}"]
        failed = list(bench.stage.failed.values())
        if bench.phase == "loading":
            return ["loading the model", *failed]
        if not self.story.step and not bench.busy:
            return failed
        if not bench.busy or time.monotonic() - self._looked >= _SLOW:
            self._looked = time.monotonic()
            self._slow_words = [*self.story.speed(), *memory()]
        replaying = ["replaying"] if bench.phase == "replaying" else []
        return [*replaying, *self.story.place(), *self._slow_words, *failed]

    def _toggled(self, _: object) -> None:
        self.bench.settings.tools = tuple(name for name, toggle in self.tools.items() if toggle.value)

    def _show_tools(self, change: object) -> None:
        for name, toggle in self.tools.items():
            toggle.value = name in change["new"]

    def __repr__(self) -> str:
        settings = self.bench.settings
        return f"RunPanel(model={settings.model!r}, loop={settings.loop!r}, question={settings.question!r})"


def memory() -> list[str]:
    """Memory of this process, and of it what MLX holds, in words."""
    used = f"{psutil.Process().memory_info().rss / 2**20:.0f} MB of memory"
    mlx = sys.modules.get("mlx.core")  # not imported for a number
    held = mlx.get_active_memory() / 2**20 if mlx else 0
    return [used, f"MLX {held:.0f} MB"] if held >= 1 else [used]


def _toggle(tool: object, on: bool) -> widgets.Checkbox:
    told = " ".join(tool.description.split())[:200]
    layout = widgets.Layout(width="auto", margin="2px 12px 2px 6px")
    return widgets.Checkbox(on, description=tool.name, tooltip=told, indent=False, layout=layout)
