"""From a model's text to reasoning, content and tool calls, while the text is still arriving.

    reasoning --closing tag--> content --opening tag of a call--> maybe_call --a call follows--> call --end--> content
                                  ^                                   |
                                  +------ a mention in prose ---------+

`ToolCallParser` walks through these states over the text so far. A step decides only what later text cannot change,
and otherwise waits: that is why it does not matter how the text was cut into chunks. A call inside a thought counts
only if nothing but calls follows until the turn ends; until then it waits in `call_ended`.
"""

import re
from collections.abc import Callable
from enum import StrEnum

from agentkit.models.call_forms import FORMS, PYTHON_LIST, CallForm, NoParser, call_forms, form_of
from agentkit.models.call_schema import schema_errors
from agentkit.models.errors import BadField
from agentkit.models.json_calls import Read, guess_name
from agentkit.models.parsed import BLANK, Delta, Parsed, Teller

__all__ = ["Delta", "Parsed", "State", "ToolCallParser", "form_of", "parse", "schema_errors"]

THOUGHT_OPENERS = ("<think>", "[THINK]", "<|channel>thought")
THOUGHT_CLOSERS = ("</think>", "[/THINK]", "<channel|>")
STRAY_CLOSERS = ("</tool_call>", "</function>", "<tool_call|>", "<end_function_call>")
CUT = "cut by the token limit"
_BRACKET = re.compile(r"[<\[]")  # every tag begins with one of these


class State(StrEnum):
    """Where the parser stands in the text."""

    REASONING = "reasoning"  # inside a thought
    CONTENT = "content"  # in the answer
    MAYBE_CALL = "maybe_call"  # behind an opening tag: the next characters tell a call from a mention
    CALL = "call"  # inside a call's block
    CALL_ENDED = "call_ended"  # in a thought, behind a well-formed call: does the turn end here?
    CLOSED = "closed"  # the turn is over


def parse(text: str, *, finish_reason: str = "stop", **options) -> Parsed:
    """Parse a whole turn at once; `options` are those of ToolCallParser."""
    parser = ToolCallParser(**options)
    parser.feed(text)
    return parser.close(finish_reason)


class ToolCallParser:
    """One turn's parser: `feed` chunks of text, then `close`.

    form: "auto" or another key of FORMS. tools: OpenAI-style schemas, to give bare text its type and to know a
    pythonic call. thinking: the prompt ended inside an open thought. new_id: makes the ids of calls.
    Tags, and blank space around them and at the edges of reasoning and content, are layout and left out.
    Raises BadField for an unknown form or finish reason, RuntimeError for text after `close`.
    """

    def __init__(self, form: str = "auto", *, tools: list[dict] | None = None, thinking: bool = False,
                 new_id: Callable[[], str] | None = None):
        if form not in FORMS:
            raise BadField(f"form is {form!r}; allowed are {', '.join(FORMS)}")
        self.form, self.tools = form, tools
        self._forms = call_forms(form)
        self._tags = (*THOUGHT_OPENERS, *THOUGHT_CLOSERS, *STRAY_CLOSERS, *self._forms)
        self._longest = max(map(len, self._tags))
        self._teller = Teller(new_id)
        self.closing_deltas: list[Delta] = []

        self._text = ""  # all of the turn so far
        self._start = 0  # what lies before is told or dropped; the rest is `pending`
        self._at = 0  # where to look next; text from _start to here belongs to the current state
        self._stretch = 0  # where the current run of reasoning or content began
        self._state = self._home = State.REASONING if thinking else State.CONTENT  # _home: the state around a call
        self._form: CallForm | None = None  # of the block that is or may be open
        self._opened = 0  # where that block begins
        self._call_end = -1  # where the last call ended
        self._waiting: list[tuple[str, list[Read]]] = []  # calls in a thought, not yet believed
        self._mentions = 0  # thought openers that were prose: each makes one closer prose, too
        self._may_be_list = form == "pythonic"

    @property
    def state(self) -> str:
        """Name of the current state."""
        return self._state.value

    @property
    def pending(self) -> str:
        """Text held back: it may become a tag, or is a call not yet complete."""
        return self._text[self._start:]

    def feed(self, text: str) -> list[Delta]:
        """Take the next chunk; returns what became certain with it."""
        if self._state is State.CLOSED:
            raise RuntimeError("this turn is closed; a new turn needs a new ToolCallParser")
        self._text += text
        self._run()
        return self._teller.take()

    def close(self, finish_reason: str = "stop") -> Parsed:
        """End the turn and return all of it; `closing_deltas` is what became certain only now.

        finish_reason: "stop", or "length" when the model was cut; a block that is open then becomes an invalid call.
        """
        if finish_reason not in ("stop", "length"):
            raise BadField(f"finish_reason is {finish_reason!r}; allowed are stop and length")
        while self._state is not State.CLOSED:
            self._settle(cut=finish_reason == "length")
            self._run()
        self.closing_deltas += self._teller.take()
        return self._teller.sum

    # Steps. Each returns whether it decided something; if not, more text is needed.

    def _run(self) -> None:
        steps = {State.REASONING: self._in_text, State.CONTENT: self._in_text, State.MAYBE_CALL: self._in_maybe_call,
                 State.CALL: self._in_call, State.CALL_ENDED: self._in_call_ended, State.CLOSED: lambda: False}
        while steps[self._state]():
            pass

    def _in_text(self) -> bool:
        if self._list_possible():
            follows = PYTHON_LIST.begins(self._text[self._at:])
            if follows:
                self._open(PYTHON_LIST, State.CALL)
            if follows is not False:
                return bool(follows)
        tag = self._next_tag()
        if not tag:
            self._tell_until(self._at)
        elif self._state is State.REASONING:
            self._tag_in_thought(tag)
        else:
            self._tag_in_content(tag)
        return bool(tag)

    def _in_maybe_call(self) -> bool:
        follows = self._form.begins(self._text[self._opened + len(self._form.opener):])
        if follows:
            self._state = State.CALL
        elif follows is False:
            self._back_to_text()
        return follows is not None

    def _in_call(self) -> bool:
        end = self._form.end(self._text[self._opened:])
        if end is not None:
            self._end_call(self._opened + end)
        return end is not None

    def _in_call_ended(self) -> bool:
        while self._text[self._at:self._at + 1] and self._text[self._at] in BLANK:
            self._at += 1
        tag = self._tag_at(self._at)
        if tag in STRAY_CLOSERS:
            self._at += len(tag)
        elif tag in self._forms:
            self._open(self._forms[tag], State.MAYBE_CALL)
        elif tag is not None:  # the thought goes on: what looked like calls is part of it
            self._waiting, self._state = [], State.REASONING
        return tag is not None

    def _settle(self, cut: bool) -> None:
        """No more text will come: decide what the steps left open. Each round closes the turn or gets further."""
        thought, rest = self._home is State.REASONING, self._text[self._opened:]
        match self._state:
            case State.REASONING | State.CONTENT:
                self._tell_until(len(self._text))
                self._state = State.CLOSED
            case State.CALL_ENDED if not cut and self._at == len(self._text):
                for raw, reads in self._waiting:
                    self._tell_calls(raw, reads)
                self._resume(len(self._text))
            case State.CALL_ENDED:
                self._waiting, self._state = [], State.REASONING
            case State.CALL if not cut:
                end = self._form.end(rest, last=True)
                self._end_call(self._opened + end if end else len(self._text), unfinished=not end)
            case State.MAYBE_CALL if not cut and not thought and self._tag_stands_alone():
                self._refuse(rest, f"nothing follows {self._form.opener}")
            case State.CALL | State.MAYBE_CALL if cut and not thought and self._form.plausible(rest, self.tools):
                self._refuse(rest, CUT)
            case _:
                self._back_to_text()

    # Tags in text.

    def _next_tag(self) -> str | None:
        """Move to the next tag and return it; None with _at on a tag that may be incomplete, or at the end."""
        while bracket := _BRACKET.search(self._text, self._at):
            self._at = bracket.start()
            tag = self._tag_at(self._at)
            if tag != "":
                return tag
            self._at += 1
        self._at = len(self._text)
        return None

    def _tag_at(self, at: int) -> str | None:
        """The tag that begins here, "" if none does, None while that is open. No tag is the beginning of another."""
        here = self._text[at:at + self._longest]
        for tag in self._tags:
            if here.startswith(tag):
                return tag
        return None if any(tag.startswith(here) for tag in self._tags) else ""

    def _tag_in_thought(self, tag: str) -> None:
        if tag in THOUGHT_CLOSERS:
            self._switch(State.CONTENT, tag)
        elif tag in THOUGHT_OPENERS and not self._text[self._stretch:self._at].strip():
            self._switch(State.REASONING, tag)  # the template opened the thought, and the model did so again
        elif tag in self._forms and not isinstance(self._forms[tag], NoParser) and not self._in_code_span():
            self._open(self._forms[tag], State.MAYBE_CALL)
        else:
            self._at += len(tag)

    def _tag_in_content(self, tag: str) -> None:
        quoted = self._in_code_span()
        fenced = self._text[self._stretch:self._at].count("```") % 2 == 1
        if tag in self._forms and not quoted:
            self._open(self._forms[tag], State.MAYBE_CALL)
        elif tag in STRAY_CLOSERS and self._call_end >= 0 and not self._text[self._call_end:self._at].strip():
            self._switch(State.CONTENT, tag)  # a second closing tag of the call before
            self._call_end = self._at
        elif tag in THOUGHT_OPENERS and not quoted and not fenced and not self._line().strip():
            self._switch(State.REASONING, tag)
        elif tag in THOUGHT_CLOSERS and not quoted and not fenced and not self._mentions:
            self._tell_until(self._at)
            self._teller.reclassify()  # a thought that the template opened, or that went on after a forced close
            self._switch(State.CONTENT, tag)
        else:
            self._mentions += (tag in THOUGHT_OPENERS) - (tag in THOUGHT_CLOSERS and self._mentions > 0)
            self._at += len(tag)

    def _line(self) -> str:
        """The text before the current place, back to the line's or the stretch's beginning."""
        return self._text[max(self._stretch, self._text.rfind("\n", 0, self._at) + 1):self._at]

    def _in_code_span(self) -> bool:
        return self._line().replace("```", "").count("`") % 2 == 1

    def _tag_stands_alone(self) -> bool:
        """Whether the opener is the last thing in the turn, and not the last word of a sentence."""
        self._at = self._opened
        return not self._text[self._opened + len(self._form.opener):].strip() and not self._line().endswith(" ")

    def _list_possible(self) -> bool:
        return (self._may_be_list and self._state is State.CONTENT and self._at == self._stretch
                and not self._teller.sum.content and self._call_end < 0)

    # Transitions.

    def _tell_until(self, end: int) -> None:
        self._teller.text(self._home.value, self._text[self._start:end])
        self._start = self._at = end

    def _switch(self, state: State, tag: str) -> None:
        """Leave the text before a tag behind, drop the tag, go on in a text state."""
        self._tell_until(self._at)
        self._start = self._at = self._stretch = self._at + len(tag)
        self._state = self._home = state

    def _open(self, form: CallForm, state: State) -> None:
        if not self._waiting:  # behind waiting calls everything from the first one on stays held back
            self._tell_until(self._at)
        self._form, self._opened, self._state = form, self._at, state

    def _end_call(self, end: int, unfinished: bool = False) -> None:
        block = self._text[self._opened:end]
        reads = self._form.read(block, self.tools)
        well_formed = bool(reads) and all(read.args is not None for read in reads)
        if not reads or self._home is State.REASONING and not well_formed:
            self._back_to_text()
        elif self._home is State.REASONING:
            self._waiting.append((block, reads))
            self._at, self._state = end, State.CALL_ENDED
        else:
            known = not isinstance(self._form, NoParser)
            self._tell_calls(block, reads, "the call was not finished; " if unfinished and known else "")
            self._resume(end)

    def _back_to_text(self) -> None:
        """It was no call: look for the next tag behind the opener."""
        self._may_be_list = self._may_be_list and self._form is not PYTHON_LIST
        self._at = self._opened + len(self._form.opener)
        self._waiting, self._state = [], self._home

    def _resume(self, end: int) -> None:
        """Go on in the answer behind a call."""
        self._start = self._at = self._stretch = self._call_end = end
        self._waiting, self._state, self._home = [], State.CONTENT, State.CONTENT

    def _refuse(self, block: str, error: str) -> None:
        if isinstance(self._form, NoParser):
            error = f"{error}; {self._form.read(block, self.tools)[0].error}"
        self._tell_calls(block, [Read(block, guess_name(block), error=error)])
        self._resume(len(self._text))

    def _tell_calls(self, block: str, reads: list[Read], why: str = "") -> None:
        for read in reads:
            if read.args is not None:
                self._teller.call(read.name, read.args, block)
            else:
                self._teller.invalid(read.name, read.raw, why + read.error, block)
            block = ""  # told once
