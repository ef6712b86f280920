"""The streaming parser taken apart: what it knew after every chunk, and whether another chunking gives another message.

A text is cut into pieces (`by_size`, `at_random`, `by_token`), the pieces go through a real `ToolCallParser`, and
after each one is noted what an outside reader can see: its state, what it holds back, what it told.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from agentkit.models.errors import BadField
from agentkit.models.parsed import Delta, Parsed
from agentkit.models.tool_calls import ToolCallParser

SHOWN = {  # the parser's states, in words for a reader
    "reasoning": "thought", "content": "text", "maybe_call": "call?", "call": "in call",
    "call_ended": "after a call in a thought", "closed": "done",
}
TOLD = {"reasoning": "thought", "content": "text", "call": "call", "invalid": "refused", "reclassify": "was a thought"}
MOST = 4000  # characters of a text; the parser looks at all of an open block again with each chunk
CHUNKINGS = 400  # how many ways to cut a text are compared


@dataclass(frozen=True)
class Frame:
    """One chunk (empty for the end of the turn), the state after it, the text held back, and what it made certain."""

    chunk: str
    state: str
    held: str
    deltas: tuple[Delta, ...]

    @property
    def told(self) -> list[tuple[str, str]]:
        """What was told, as (kind, text); a call as `name(arguments)`, a refused one with its reason."""
        return [(TOLD[delta.kind], words(delta)) for delta in self.deltas]


@dataclass(frozen=True)
class Dissection:
    """A text, the frames of its way through the parser, and the message that came out."""

    text: str
    frames: list[Frame]
    parsed: Parsed

    def kinds(self) -> list[tuple[str, str]]:
        """The text in stretches (kind, text): "thought", "text", "call", "refused", or "tag" for a dropped tag."""
        runs: list[list[str]] = []
        done = fed = 0
        for frame in self.frames:
            fed += len(frame.chunk)
            until, kinds = fed - len(frame.held), {delta.kind for delta in frame.deltas}
            stretch, done = self.text[done:until], until
            if "reclassify" in kinds:
                runs = [["thought" if kind == "text" else kind, text] for kind, text in runs]
            kind = next((TOLD[k] for k in ("invalid", "call", "content", "reasoning") if k in kinds), None)
            if kind is None:  # blank space and tags are told to nobody
                kind = "tag" if stretch.strip() else runs[-1][0] if runs else "text"
            if stretch and runs and runs[-1][0] == kind:
                runs[-1][1] += stretch
            elif stretch:
                runs.append([kind, stretch])
        return [(kind, text) for kind, text in runs]


def words(delta: Delta) -> str:
    """A delta in words: its text, or its call."""
    if delta.call is None:
        return delta.text
    name, args = delta.call["name"], delta.call["args"]
    if delta.kind == "invalid":
        return f"{name or 'a call'}: {delta.call['error']}"
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in args.items())})"


def by_size(text: str, sizes: int | Sequence[int]) -> list[str]:
    """Pieces of `sizes` characters; of several sizes the last is for the rest. Raises BadField for a size below 1."""
    sizes = [sizes] if isinstance(sizes, int) else list(sizes)
    if not sizes or min(sizes) < 1:
        raise BadField(f"sizes is {sizes}; allowed are whole numbers from 1")
    pieces, at = [], 0
    while at < len(text):
        size = sizes[min(len(pieces), len(sizes) - 1)]
        pieces.append(text[at:at + size])
        at += size
    return pieces


def at_random(text: str, seed: int, most: int = 12) -> list[str]:
    """Pieces of 1 to `most` characters, drawn with `seed`."""
    draw = random.Random(seed)
    return by_size(text, [draw.randint(1, most) for _ in range(len(text) + 1)])


def by_token(text: str, model) -> list[str]:
    """The pieces in which a local model would write the text. A letter made of several tokens comes whole."""
    ids, decode = model.get_token_ids(text), model.engine.tokenizer.decode
    pieces, start = [], 0
    for end in range(1, len(ids) + 1):
        piece = decode(ids[start:end])
        if not piece.endswith("\ufffd") or end == len(ids):
            pieces.append(piece)
            start = end
    return pieces


def dissect(pieces: Iterable[str], finish: str = "stop", **options) -> Dissection:
    """Feed the pieces and note each frame; `options` are those of ToolCallParser. Ids of calls count from 1.

    Raises BadField for a text of more than MOST characters.
    """
    pieces = list(pieces)
    if (length := sum(map(len, pieces))) > MOST:
        raise BadField(f"the text has {length} characters; the microscope takes at most {MOST}")
    ids = iter(range(1, MOST))
    parser = ToolCallParser(new_id=lambda: f"call_{next(ids)}", **options)
    frames = []
    for piece in pieces:
        told = parser.feed(piece)
        frames.append(Frame(piece, parser.state, parser.pending, tuple(told)))
    parsed = parser.close(finish)
    frames.append(Frame("", parser.state, parser.pending, tuple(parser.closing_deltas)))
    return Dissection("".join(pieces), frames, parsed)


def chunkings(text: str, most: int = CHUNKINGS) -> Iterator[list[str]]:
    """About `most` ways to cut a text: in equal sizes from one character up, and in two at each place."""
    for size in range(1, min(len(text), most // 2) + 1):
        yield by_size(text, size)
    step = max(1, len(text) // (most // 2))
    for at in range(1, len(text), step):
        yield [text[:at], text[at:]]


def disagreement(text: str, finish: str = "stop", **options) -> tuple[int, list[str] | None]:
    """How many chunkings were compared with the whole text, and the first that gave another message (None: none)."""
    whole, count = dissect([text], finish, **options).parsed, 0
    for count, pieces in enumerate(chunkings(text), 1):
        if dissect(pieces, finish, **options).parsed != whole:
            return count, pieces
    return count, None
