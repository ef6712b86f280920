"""The Faults panel: choose how the next run is to fail, and read what the loop made of it."""

import html
from typing import Any

import ipywidgets as widgets

from agentkit.events import Event, FaultInjected, GuardVerdict, RunEnded, RunStarted, ToolCalled, ToolReturned
from agentkit.lab.faults import KINDS, Fault
from agentkit.lab.rows import Rows
from agentkit.lab.story_panel import StoryPanel

NAMES = {
    "a tool raises": "raises",
    "a tool is slow": "slow",
    "a tool returns rubbish": "rubbish",
    "the model's call is malformed": "malformed",
    "the model's answer is cut": "cut",
    "the model repeats itself": "repeats",
}
# No None among the values: a dropdown shows nothing chosen for it.
TIMES = {"always": 0, "once": 1, "twice": 2, "three times": 3}
EMPTY = "Nothing has run yet."


def _sized(pixels: int) -> dict:
    return {"style": {"description_width": "initial"}, "layout": widgets.Layout(width=f"{pixels}px")}


class FaultStory:
    """What became of a fault, from the events alone: when it acted, what was refused, hinted, failed, and the end."""

    def __init__(self) -> None:
        self.rows = Rows(EMPTY)

    def take(self, event: Event) -> None:
        """Follow one event of the run."""
        match event:
            case RunStarted(loop=loop):
                self.rows.clear(f"the {loop} loop is running")
            case FaultInjected(detail=detail):
                self.rows.add("system", "injected", detail)
            case ToolCalled(name=name, invalid=str(reason)):
                self.rows.add("error", "refused", f"{name}: {reason}")
            case ToolReturned(name=name, content=content, status="error"):
                self.rows.add("error", "error", f"{name}: {content}")
            case GuardVerdict(guard=guard, verdict=verdict, detail=detail):
                self.rows.add("guard", verdict, f"{guard}: {detail}")
            case RunEnded(reason=reason, answer=answer):
                self.rows.add("ai" if reason == "answer" else "error", "answer", answer)
                self.rows.foot(f"ended: {reason}")


class FaultsPanel(StoryPanel):
    """Made by `Workbench.faults_panel`; sets the workbench's `fault`. The switch is off at first."""

    def __init__(self, bench: Any):
        super().__init__(bench, FaultStory(), "What became of the fault")
        self.kind = widgets.Dropdown(options=NAMES, description="fault", **_sized(270))
        self.tool = widgets.Dropdown(options=self._tools(), description="tool", **_sized(210))
        self.seconds = widgets.BoundedFloatText(30, min=0.1, max=3600, description="seconds", **_sized(140))
        self.tokens = widgets.BoundedIntText(8, min=1, max=4096, description="tokens", **_sized(140))
        self.times = widgets.Dropdown(options=TIMES, description="acts", **_sized(150))
        self.switch = widgets.Checkbox(False, description="inject into the next run", indent=False)
        self.line = widgets.HTML()
        for widget in (self.kind, self.tool, self.seconds, self.tokens, self.times, self.switch):
            widget.observe(self._chosen, "value")
        bench.settings.observe(self._tools_changed, "tools")
        fields = widgets.HBox([self.kind, self.tool, self.seconds, self.tokens, self.times])
        fields.layout.flex_flow = "row wrap"
        self.children = [fields, self.switch, self.line, self.live]
        self._dress()

    @property
    def fault(self) -> Fault:
        """The fault as the widgets stand, injected or not."""
        return Fault(
            self.kind.value, self.tool.value or None, self.seconds.value, self.tokens.value, self.times.value or None
        )

    def begin(self, graph: dict | None) -> None:
        """Another run: a fault that a cell has set is the one shown."""
        self.story.rows.clear()
        self._dress()

    def _tools(self) -> dict[str, str]:
        return {"every tool": ""} | {name: name for name in self.bench.settings.tools}

    def _tools_changed(self, _: dict) -> None:
        chosen, options = self.tool.value, self._tools()
        self.tool.options = options
        self.tool.value = chosen if chosen in options.values() else ""

    def _chosen(self, _: dict) -> None:
        self.bench.fault = self.fault if self.switch.value else None
        self._dress()

    def _dress(self) -> None:
        """Show the fields that the fault takes, and say what will happen."""
        kind, on = KINDS[self.kind.value], self.bench.fault
        for widget, shown in (
            (self.tool, kind.on == "tool"),
            (self.seconds, kind.field == "seconds"),
            (self.tokens, kind.field == "tokens"),
        ):
            widget.layout.display = "" if shown else "none"
        said = on or self.fault
        head = "Injected into the next run" if on else "Not injected"
        colour = "#d1463b" if on else "inherit"
        self.line.value = (
            f'<div style="line-height:1.5"><b style="color:{colour}">{head}:</b> {html.escape(str(said))}<br>'
            f"<b>Watch for:</b> {html.escape(KINDS[said.kind].watch)}</div>"
        )

    def __repr__(self) -> str:
        return f"FaultsPanel({'on' if self.bench.fault else 'off'}, {str(self.bench.fault or self.fault)!r})"
