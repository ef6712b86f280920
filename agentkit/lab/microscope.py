"""The parser under a microscope: a raw text goes through the streaming parser chunk by chunk, and each step can be seen.

Controls are ipywidgets; the slide (`front/microscope.js`) gets all steps at once and moves among them without asking
Python again, so that it also works in a page whose kernel is gone.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import anywidget
import ipywidgets as widgets
import traitlets

from agentkit.lab.dissect import SHOWN, Dissection, at_random, by_size, by_token, disagreement, dissect
from agentkit.lab.live import FRONT
from agentkit.lab.raw_texts import RAW_TEXTS
from agentkit.models.call_forms import FORMS
from agentkit.models.errors import BadField

OWN = "your own text"
COLOURS = {"thought": "#7a7a7a", "was a thought": "#7a7a7a", "text": "#2f6f4f", "call": "#8a5a00", "refused": "#b3261e",
           "tag": "#9aa0a6", "held": "#6b4e9b"}


class Cut(StrEnum):
    """How a text is cut into chunks."""

    EQUAL = "equal pieces"
    RANDOM = "random pieces"
    GIVEN = "the given sizes"
    TOKENS = "the model's tokens"


class Slide(anywidget.AnyWidget):
    """The drawn part: the text with its colours, the states, what is held back and told at `step` (from 0)."""

    _esm = FRONT / "microscope.js"
    _css = FRONT / "microscope.css"
    view = traitlets.Dict().tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)


class Microscope(widgets.VBox):
    """Watch the parser read `text`, or one of RAW_TEXTS by its name (`preset`).

    sizes: characters of a chunk, or a list of them. seed: random chunks instead. tokens: a local model; its own tokens
    become a way to cut. thinking, finish, form, tools: as ToolCallParser and its `close` take them; a preset has its
    own. Raises BadField for an unknown preset and for what the parser refuses.
    """

    def __init__(self, text: str | None = None, sizes: int | Sequence[int] = 1, *, preset: str | None = None,
                 seed: int | None = None, tokens=None, thinking: bool = False, finish: str = "stop",
                 form: str = "auto", tools: Sequence[dict] = ()):
        preset = preset or (OWN if text is not None else next(iter(RAW_TEXTS)))
        if preset not in (OWN, *RAW_TEXTS):
            raise BadField(f"preset is {preset!r}; known are {', '.join(RAW_TEXTS)}")
        self._tools, self._model, self._quiet = list(tools), tokens, True
        self._sizes = [sizes] if isinstance(sizes, int) else list(sizes)
        cuts = [Cut.EQUAL, Cut.RANDOM]
        cuts += [Cut.GIVEN] * (len(self._sizes) > 1) + [Cut.TOKENS] * (tokens is not None)
        cut = Cut.RANDOM if seed is not None else cuts[-1] if len(cuts) > 2 else Cut.EQUAL
        narrow, wide = {"description_width": "70px"}, widgets.Layout(width="100%")
        self.preset = widgets.Dropdown(options=[OWN, *RAW_TEXTS], value=preset, description="text", style=narrow)
        self.raw = widgets.Textarea(value=text or "", rows=4, layout=wide, placeholder="Paste what a model wrote")
        self.cut = widgets.Dropdown(options=cuts, value=cut, description="chunks", style=narrow)
        self.size = widgets.IntSlider(value=self._sizes[0], min=1, max=max(40, self._sizes[0]), description="characters",
                                      style=narrow, continuous_update=False)
        self.seed = widgets.BoundedIntText(value=seed or 0, min=0, max=10**6, description="seed", style=narrow,
                                           layout=widgets.Layout(width="170px"))
        self.form = widgets.Dropdown(options=list(FORMS), value=form, description="form", style=narrow)
        self.thinking = widgets.Checkbox(value=thinking, description="starts in a thought", indent=False)
        self.finish = widgets.Dropdown(options=[("the model stopped", "stop"), ("the token limit cut it", "length")],
                                       value=finish, description="end", style=narrow)
        self.slide = Slide()
        self.seen: Dissection | None = None  # what the slide shows; None while the text cannot be taken
        self._load()
        super().__init__([widgets.HBox([self.preset, self.form, self.finish, self.thinking]), self.raw,
                          widgets.HBox([self.cut, self.size, self.seed]), self.slide])
        for control in (self.cut, self.size, self.seed, self.form, self.thinking, self.finish):
            control.observe(self._changed, "value")
        self.raw.observe(self._typed, "value")
        self.preset.observe(self._chosen, "value")
        self._quiet = False
        self._look()
        if self.seen is None:
            raise BadField(self.slide.view["error"])

    def text(self) -> str:
        """All steps as plain text; steps in which the state stays the same are one row."""
        return _as_text(self.seen, self.slide.view) if self.seen else self.slide.view["error"]

    def still(self) -> "Still":
        """The same as a static object, for a page without a kernel."""
        return Still(self.text(), _as_html(self.seen, self.slide.view) if self.seen else html.escape(self.text()))

    def __repr__(self) -> str:
        return f"Microscope({len(self.raw.value)} characters, {len(self.slide.view.get('frames', ()))} steps)"

    def _load(self) -> None:
        """Put the chosen preset into the controls."""
        if chosen := RAW_TEXTS.get(self.preset.value):
            self.raw.value, self.thinking.value = chosen.text, chosen.thinking
            self.finish.value, self._tools = chosen.finish, list(chosen.tools)

    def _chosen(self, _) -> None:
        if not self._quiet:
            self._quiet = True
            self._load()
            self._quiet = False
            self._look()

    def _typed(self, _) -> None:
        if not self._quiet:
            self._quiet = True
            self.preset.value = OWN
            self._quiet = False
            self._look()

    def _changed(self, _) -> None:
        if not self._quiet:
            self._look()

    def _pieces(self) -> list[str]:
        text = self.raw.value
        match self.cut.value:
            case Cut.RANDOM:
                return at_random(text, self.seed.value)
            case Cut.GIVEN:
                return by_size(text, self._sizes)
            case Cut.TOKENS:
                return by_token(text, self._model)
        return by_size(text, self.size.value)

    def _look(self) -> None:
        text = self.raw.value
        options = {"form": self.form.value, "tools": self._tools or None, "thinking": self.thinking.value,
                   "finish": self.finish.value}
        try:
            seen = dissect(self._pieces(), **options)
            kinds = dissect(by_size(text, 1), **options).kinds()
            count, other = disagreement(text, **options)
        except BadField as problem:
            self.seen, self.slide.view, self.slide.step = None, {"error": str(problem)}, 0
            return
        frames, fed = [], 0
        for frame in seen.frames:
            fed += len(frame.chunk)
            frames.append([fed, fed - len(frame.held), SHOWN[frame.state], frame.told])
        about = RAW_TEXTS[self.preset.value].about if self.preset.value in RAW_TEXTS else ""
        verdict = f"Cut in {count} other ways, the text gives " + (
            "the same message each time." if other is None else f"another message for the pieces {other!r}.")
        self.seen, self.slide.step = seen, 0
        self.slide.view = {"about": about, "kinds": kinds, "frames": frames, "verdict": verdict,
                           "states": list(SHOWN.values()), "colours": COLOURS}


@dataclass(frozen=True, repr=False)
class Still:
    """What the microscope shows, without widgets: text, and HTML."""

    as_text: str
    as_html: str

    def __repr__(self) -> str:
        return self.as_text

    def _repr_html_(self) -> str:
        return self.as_html


def _rows(seen: Dissection) -> list[tuple[str, str, str, list[tuple[str, str]], str]]:
    """(chunks, arrived, state, told, held): neighbours that differ in nothing but text become one row."""
    rows: list[tuple[list[int], str, str, list[tuple[str, str]], str]] = []
    for number, frame in enumerate(seen.frames, 1):
        told, end = list(frame.told), not frame.chunk
        last = rows[-1] if rows else None
        alike = {kind for kind, _ in told} <= {"thought", "text"}
        if last and not end and alike and last[2] == SHOWN[frame.state] and bool(last[4]) == bool(frame.held):
            known = last[3]
            for kind, text in told:
                if known and known[-1][0] == kind and kind in ("thought", "text"):
                    known[-1] = (kind, known[-1][1] + text)
                else:
                    known.append((kind, text))
            rows[-1] = ([last[0][0], number], last[1] + frame.chunk, last[2], known, frame.held)
        else:
            rows.append(([number, number], frame.chunk, SHOWN[frame.state], told, frame.held))
    return [(_numbered(*numbers) if chunk else "end", chunk, *rest) for numbers, chunk, *rest in rows]


def _numbered(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _message(seen: Dissection) -> list[tuple[str, str]]:
    """The parts of the message that came out, as (kind, text)."""
    parsed, kinds = seen.parsed, ("reasoning", "content")
    parts = [(SHOWN[kind], repr(getattr(parsed, kind))) for kind in kinds if getattr(parsed, kind)]
    return parts + [told for frame in seen.frames for told in frame.told if told[0] in ("call", "refused")]


def _as_text(seen: Dissection, view: dict) -> str:
    lines = []
    for numbers, chunk, state, told, held in _rows(seen):
        says = "; ".join(f"{kind} {text if kind in ('call', 'refused') else repr(text)}" for kind, text in told)
        parts = [f"gets {_short(chunk)}" if chunk else "", f"tells {says}" if told else "",
                 f"holds {_short(held)}" if held else ""]
        lines.append(f"{numbers:>9} | {state:<9} | " + " · ".join(part for part in parts if part))
    lines += ["message:", *(f"  {kind}: {text}" for kind, text in _message(seen)), view["verdict"]]
    return "\n".join(line.rstrip() for line in lines)


def _as_html(seen: Dissection, view: dict) -> str:
    def mark(kind: str, text: str) -> str:
        return f'<span style="color:{COLOURS.get(kind, "inherit")}">{html.escape(text)}</span>'

    style = "text-align:left;vertical-align:top;padding:2px 10px;white-space:"
    cell, short = (f'<td style="{style}{wrap}">' for wrap in ("pre-wrap;overflow-wrap:anywhere", "nowrap"))
    head = "".join(f'<th style="text-align:left;padding:2px 10px">{name}</th>'
                   for name in ("chunks", "arrives", "state", "is told", "is held back"))
    body = ""
    for numbers, chunk, state, told, held in _rows(seen):
        says = "<br>".join(mark(kind, f"{kind}: {text}") for kind, text in told)
        arrived = f"<code>{html.escape(_short(chunk))}</code>" if chunk else ""
        kept = f"<code>{mark('held', _short(held))}</code>" if held else ""
        body += (f"<tr>{short}{numbers}</td>{cell}{arrived}</td>{short}<b>{html.escape(state)}</b></td>"
                 f"{cell}{says}</td>{cell}{kept}</td></tr>")
    raw = "".join(mark(kind, text) for kind, text in view["kinds"])
    out = "<br>".join(mark(kind, f"{kind}: {text}") for kind, text in _message(seen))
    about = f'<div style="color:#666">{html.escape(view["about"])}</div>' if view["about"] else ""
    return (f'<div style="max-width:980px;font-size:13px">{about}<pre style="white-space:pre-wrap;margin:6px '
            f'0;padding:6px 10px;'
            f'border-left:3px solid #bbb">{raw}</pre><table style="font-size:13px"><thead><tr>{head}</tr></thead>'
            f'<tbody>{body}</tbody></table><div style="margin-top:6px">{out}</div>'
            f'<div style="color:#666;margin-top:4px">{html.escape(view["verdict"])}</div></div>')


def _short(text: str, most: int = 60) -> str:
    """A text as one line in quotes, its middle left out where it is long."""
    return repr(text if len(text) <= most else f"{text[:most // 2]} … {text[-most // 2:]}")
