"""Choose before you run: a prediction is what makes a result surprise.

The questions of the lessons stand here and not in their cells, where the answer would be read before the choice.
"""

import ipywidgets as widgets

from agentkit.models.errors import BadField

QUESTIONS = {
    "a sum without tools": (
        "What will the model say 23 times 19 is?",
        ["437", "a different number, without any doubt", "that it cannot do sums"], 1,
        "A language model writes likely text. A wrong number is as fluent as the right one, and nothing in it checks."),
}


def predict(name: str) -> "Predict":
    """The prediction of a lesson by its name; BadField names the known ones."""
    if name not in QUESTIONS:
        raise BadField(f"prediction {name!r} is unknown; known are {', '.join(QUESTIONS)}")
    return Predict(*QUESTIONS[name])


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
