"""The text protocol of the `handmade` loop, Thought, Action, Action Input, Observation, Final Answer: told and read.

A label counts at the beginning of a line; one in a sentence, in quotes, in a string or in a code fence is text. The one
exception is Observation: wherever a line begins with it the reply is over, for what follows the model made up.
"""

import re
from dataclasses import dataclass
from functools import partial
from itertools import dropwhile

from agentkit.models.call_values import read_json

FORMAT = """Write either

Thought: what you think
Action: one of {names}
Action Input: a JSON object with the parameters of the tool

or, when you are done,

Thought: what you think
Final Answer: the answer to the question

Each label begins its own line. The Observation comes from the tool; never write one yourself."""

STOP = ["\nObservation:"]  # with the line break, so that a string which mentions the word is not torn

# Small models write ### Action:, **Action:**, **Action**:, Action 1: and action_input: as well.
_LABEL = re.compile(
    r"^[ \t]*(?:#+[ \t]*)?(?P<mark>[*_]*)(?P<name>thought|action(?:[ _]?input)?|observation|final[ _]?answer)"
    r"[ \t\d*_]*[:：](?:\*+|__)?",
    re.IGNORECASE | re.MULTILINE,
)
_FENCED = re.compile(r"^[ \t]*```.*?^[ \t]*```[ \t]*$", re.DOTALL | re.MULTILINE)
_QUOTED = re.compile(r'(?<![^\s(])"[^"]*"(?=[\s.,;:!?)]|$)|“[^”]*”')  # 5" is no opening quote, {"a" no closing one
_WRAPPED = re.compile(r"```\w*\n(.*?)\n?```|`([^`\n]+)`", re.DOTALL)
_THINK = re.compile(r"\s*<think>.*?</think>\s*", re.DOTALL)
_OPENING = re.compile(r"\s*(?:`+(?:json\b)?\s*)?")  # what may stand before the JSON of an Action Input ...
_CLOSING = re.compile(r"[`*\s]*")  # ... and behind it


@dataclass(frozen=True)
class Reply:
    """What a model's reply says: an `action` with its `input`, or an `answer`, or else the `problem` with it.

    `input` is a dict where the model wrote a JSON object, else plain text. `text` is the part of the reply that counts.
    """

    text: str
    thought: str = ""
    action: str | None = None
    input: dict | str = ""
    answer: str | None = None
    problem: str | None = None


def parse(text: str) -> Reply:
    """Read one reply of the model. Whatever the text, nothing is raised: `problem` says what is wrong with it."""
    text = _THINK.sub("", text, count=1) if _THINK.match(text) else text
    every = list(_LABEL.finditer(text))
    end = next((label.start() for label in every if _kind(label) == "observation"), len(text))
    unquoted = _blanked(_QUOTED, text[:end])
    # What stands in a fence is quoted, unless nothing else is there: then the model fenced the reply itself.
    for view in (_blanked(_FENCED, unquoted), unquoted):
        labels = list(dropwhile(lambda label: _kind(label) not in ("action", "finalanswer"), _LABEL.finditer(view)))
        # The first one counts: an answer behind an action was written without seeing its result.
        if labels and _kind(labels[0]) == "action":
            return _action(text, end, labels)
        if labels and any(_kind(label) == "action" for label in every if label.start() < labels[0].start()):
            problem = "there is an Action, quoted or in a fence, and a Final Answer; write one of them, without a fence"
            return Reply(text[:end].strip(), problem=problem)
        if labels:
            return _answer(text[:end], labels[0])
    if end < len(text):
        return Reply(text[:end].strip(), problem="an Observation is never yours to write, it follows an Action")
    return Reply(text.strip(), problem="the reply holds neither an Action nor a Final Answer")


def _kind(label: re.Match) -> str:
    return label["name"].lower().replace(" ", "").replace("_", "")


def _blanked(what: re.Pattern, text: str) -> str:
    return what.sub(lambda found: "." * len(found[0]), text)


def _action(text: str, end: int, labels: list[re.Match]) -> Reply:
    action, *later = labels
    stop = later[0].start() if later else end
    name = text[action.end() : stop].strip().partition("\n")[0].strip(" \t\r*`'\"[]<>().,")
    if not name:
        return Reply(text[:stop].strip(), problem="the Action names no tool")
    read = partial(Reply, thought=_thought(text, action), action=name)
    if not later or _kind(later[0]) != "actioninput":
        return read(text[:stop].strip())
    start = later[0].end()
    at = _OPENING.match(text, start).end()
    if text.startswith("{", at):
        try:
            # From the whole text, since any label may stand inside a string of the JSON, even an Observation.
            found, stop = read_json(text, at)
            return read(text[: _CLOSING.match(text, stop, max(stop, end)).end()].strip(), input=found)
        except ValueError as error:
            # Half an object is not passed on as text: a call that is not whole is never run.
            if re.match(r'\{\s*"', text[at:]):
                return read(text[:end].strip(), problem=f"the Action Input is not valid JSON: {error}")
    stop = later[1].start() if len(later) > 1 else end
    body = _body(text[start:stop], later[0])
    wrapped = _WRAPPED.fullmatch(body)
    return read(text[:stop].strip(), input=(wrapped[1] or wrapped[2] or "") if wrapped else body)


def _answer(text: str, label: re.Match) -> Reply:
    # All the rest, other labels too: an answer may be about this very format.
    if answer := _body(text[label.end() :], label):
        return Reply(text.strip(), thought=_thought(text, label), answer=answer)
    return Reply(text.strip(), problem="the Final Answer is empty")


def _thought(text: str, until: re.Match) -> str:
    first = _LABEL.search(text)
    start = first.end() if _kind(first) == "thought" else 0
    return _body(text[start : until.start()], first)


def _body(text: str, label: re.Match) -> str:
    """The text behind a label without the end of what was opened before it: a line in bold, a fenced reply."""
    body = text.strip()
    if body.endswith("```") and body.count("```") % 2:
        body = body[:-3].rstrip()
    mark = label["mark"]
    return body.removesuffix(mark).rstrip() if mark and label[0].count(mark) == 1 else body
