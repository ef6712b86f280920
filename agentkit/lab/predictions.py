"""Choose before you run: a prediction is what makes a result surprise."""

import html
import importlib
import pkgutil
from typing import Any

import ipywidgets as widgets

import agentkit.lab.check
from agentkit.models.errors import BadField


def predict(name: str) -> "Predict":
    """The prediction `<lesson>: <name>` of `agentkit.lab.check.<lesson>`; BadField names the known ones."""
    lesson, _, which = (part.strip() for part in name.partition(":"))
    lessons = [module.name for module in pkgutil.iter_modules(agentkit.lab.check.__path__)]
    if lesson not in lessons:
        raise BadField(f"prediction {name!r}: lesson {lesson!r} is unknown; known are {', '.join(lessons)}")
    known = importlib.import_module(f"agentkit.lab.check.{lesson}").PREDICTIONS
    if which not in known:
        raise BadField(f"prediction {name!r} is unknown; lesson {lesson} has {', '.join(known)}")
    return Predict(*known[which])


class Predict(widgets.VBox):
    """A question with answers to choose from; `reveal()` says whether the choice was right, and why.

    right: the index of the true answer. why: one or two sentences, shown after the choice. Nothing is chosen at first.
    """

    def __init__(self, question: str, options: list[str], right: int, why: str):
        self.question, self.options, self._right, self._why = question, options, right, why
        self.choice = widgets.RadioButtons(options=options, value=None, layout=widgets.Layout(width="auto"))
        super().__init__([widgets.HTML(f"<b>Predict.</b> {question}"), self.choice])

    def reveal(self) -> str:
        """The verdict on the choice, as text; without a choice it asks for one and gives nothing away."""
        if self.choice.value is None:
            return "Choose an answer above first, then run this cell again."
        verdict = "Yes." if self.choice.index == self._right else f"Not quite: {self.options[self._right]}."
        return f"{verdict} {self._why}"

    def __repr__(self) -> str:
        marks = [f"  ({'x' if self.choice.index == i else ' '}) {option}" for i, option in enumerate(self.options)]
        return "\n".join([f"Predict. {self.question}", *marks])

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        # ipywidgets cuts the text to 110 characters and has no HTML: a page without a kernel would lose the options.
        bundle = super()._repr_mimebundle_(**options)
        items = "".join(f"<li>{html.escape(option)}</li>" for option in self.options)
        still = f"<b>Predict.</b> {html.escape(self.question)}<ul>{items}</ul>"
        return {**bundle, "text/plain": repr(self), "text/html": still}
