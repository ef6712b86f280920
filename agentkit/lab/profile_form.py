"""`ProfileForm`: every field of the generation profile as a widget that fits it, with ranges and help from the profile."""

from typing import Any

import ipywidgets as widgets

from agentkit.lab.settings import Settings
from agentkit.models.profile import GenerationProfile

OFTEN = ("temperature", "max_tokens", "seed")
_WIDE = 100  # a range of whole numbers up to this gets a slider; a wider one could not be aimed at


class ProfileForm:
    """`often`: the widgets that stand in the open; `rest`: a folded accordion; `fields`: all of them by name.

    A change goes into `settings`, and a change of the settings shows in the widgets.
    """

    def __init__(self, settings: Settings):
        self.settings = settings
        ranges = GenerationProfile.ranges()
        self.fields = {name: widget_for(name, about, settings.fields[name]) for name, about in ranges.items()}
        for name, widget in self.fields.items():
            widget.observe(lambda change, name=name: settings.set_field(name, change["new"]), "value")
        settings.observe(lambda change: self._show(change["new"]), "fields")
        for name in OFTEN:
            self.fields[name].style.description_width = "initial"
            self.fields[name].layout = widgets.Layout(width="240px", margin="2px 14px 2px 2px")
        self.often = widgets.HBox([self.fields[name] for name in OFTEN], layout=widgets.Layout(flex_flow="row wrap"))
        grid = widgets.Layout(grid_template_columns="repeat(auto-fill, minmax(330px, 1fr))", grid_gap="0 18px")
        rest = widgets.GridBox([widget for name, widget in self.fields.items() if name not in OFTEN], layout=grid)
        self.rest = widgets.Accordion([rest], titles=("Generation profile",), selected_index=None)

    def _show(self, fields: dict[str, Any]) -> None:
        for name, widget in self.fields.items():
            value = fields[name]
            widget.value = "" if value is None else str(value) if isinstance(widget, widgets.Text) else value


def widget_for(name: str, about: dict, value: Any) -> widgets.Widget:
    """A checkbox, a slider, a bounded number or a line of text. A field that may be empty is a line of text."""
    shared = {
        "description": name,
        "tooltip": about["help"],
        "style": {"description_width": "130px"},
        "layout": widgets.Layout(width="320px"),
    }
    default = about["default"]
    if isinstance(default, bool):
        return widgets.Checkbox(value=value, **shared)
    if isinstance(default, str) or about.get("optional"):
        hint = "drawn anew" if about.get("optional") else "none"
        return widgets.Text(value="" if value is None else str(value), placeholder=hint, **shared)
    bounds = {"min": about["low"], "max": about["high"]}
    whole = isinstance(default, int)
    if about["high"] - about["low"] <= (_WIDE if whole else 2):
        kind, step = (widgets.IntSlider, 1) if whole else (widgets.FloatSlider, 0.01)
        return kind(value=value, step=step, continuous_update=False, **bounds, **shared)
    kind = widgets.BoundedIntText if whole else widgets.BoundedFloatText
    return kind(value=value, **bounds, **shared)
