"""What a check says: whether the answer is right, and in words that help on. Nothing is raised; a lesson goes on."""

import html
from dataclasses import dataclass

_COLOURS = {True: ("#4b7f52", "Right"), False: ("#8a5a00", "Not yet")}


@dataclass(frozen=True)
class Verdict:
    """`ok`, and a `text` of one or two sentences: why it is right, or what to look at next."""

    ok: bool
    text: str

    def __repr__(self) -> str:
        return f"{_COLOURS[self.ok][1]}: {self.text}"

    def _repr_html_(self) -> str:
        colour, word = _COLOURS[self.ok]
        return (f'<div style="border-left:4px solid {colour};padding:4px 10px;max-width:820px"><b style="color:{colour}">{word}.</b> '
                f"{html.escape(self.text)}</div>")


def right(text: str) -> Verdict:
    """The answer holds; say what it shows."""
    return Verdict(True, text)


def not_yet(text: str) -> Verdict:
    """The answer does not hold; say what was seen and where to look, not the solution."""
    return Verdict(False, text)
