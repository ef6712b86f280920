"""A run as text for a terminal: the answer goes to stdout, everything on the way to it to stderr.

On a terminal the answer's tokens appear as they come; into a pipe or a file goes the finished answer alone.
"""

import re
import sys

from rich.console import Console
from rich.text import Text

from agentkit import events

MOST_RESULT = 300
# A file or a web page may hold escape sequences; a terminal would obey them.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Transcript:
    """Takes a run's events one by one and prints them."""

    def __init__(self):
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # a terminal that cannot show Thai shows ? instead of failing
        self.out = Console(highlight=False, soft_wrap=True)
        self.err = Console(stderr=True, highlight=False, soft_wrap=True)
        self.live = sys.stdout.isatty()
        self._status = None
        self._line = None  # the console in the middle of a line
        self._streamed = ""  # what the model wrote in this step, as far as it is on the screen
        self._prompt = self._reused = 0

    def busy(self, what: str | None) -> None:
        """Show a spinner with these words on stderr until something else is printed; None takes it away."""
        if self._status and what == self._status.status:
            return
        if self._status:
            self._status.stop()
            self._status = None
        if what and self.err.is_terminal:
            self._end_line()
            self._status = self.err.status(what)
            self._status.start()

    def take(self, event: events.Event) -> None:
        """Print one event."""
        match event:
            case events.StepStarted():
                self._streamed = ""
                self.busy("thinking" if event.node != "tools" else "working")
            case events.Token(channel="answer") if self.live:
                self._streamed += event.text
                self._part(self.out, event.text, "")
            case events.Token(channel="thought"):
                self._part(self.err, event.text, "dim italic")
            case events.ToolCalled():
                self._streamed = ""
                self._called(event)
            case events.ToolReturned():
                bad = event.status == "error"
                self._say(f"  ← {shortened(event.content)}", "red" if bad else "dim")
                self.busy("thinking")
            case events.GuardVerdict():
                self._say(f"  ! {event.guard}: {shortened(event.detail)}", "yellow")
            case events.PrefixReuse():
                self._prompt += event.prompt
                self._reused += event.reused
            case events.RunEnded():
                self._ended(event)

    def _called(self, event: events.ToolCalled) -> None:
        if event.invalid:
            self._say(f"✗ malformed call of {event.name}: {shortened(event.invalid)}", "red")
            return
        self._say(f"→ {event.name}({shortened(events.args_text(event.args))})", "cyan")
        self.busy("working")

    def _ended(self, event: events.RunEnded) -> None:
        self.busy(None)
        self._end_line()
        if event.reason == "answer":
            # In the last step's text, not equal to it: the handmade loop's answer stands behind "Final Answer:".
            answer = clean(event.answer).strip()
            if not answer or answer not in clean(self._streamed):
                self.out.print(Text(answer), soft_wrap=True)
        elif event.reason != "error":  # an error is told by the command line itself, in one line
            self._say(event.answer, "yellow")
        self._say(cost(event.usage, self._prompt, self._reused), "dim")

    def _part(self, console: Console, text: str, style: str) -> None:
        self.busy(None)
        if self._line not in (None, console):
            self._end_line()
        console.print(Text(clean(text), style=style), end="", soft_wrap=True)
        console.file.flush()
        self._line = None if text.endswith("\n") else console

    def _say(self, text: str, style: str) -> None:
        self.busy(None)
        self._end_line()
        self.err.print(Text(clean(text), style=style), soft_wrap=True)

    def _end_line(self) -> None:
        if self._line:
            self._line.print()
            self._line = None


def clean(text: str) -> str:
    """The text without control characters that a terminal would act on."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def shortened(text: str) -> str:
    """One line of at most 300 characters."""
    line = " ".join(text.split())
    return line if len(line) <= MOST_RESULT else f"{line[:MOST_RESULT]}… ({len(line)} characters)"


def cost(usage: dict, prompt: int, reused: int) -> str:
    """What a run cost, in one small line; what was not measured is left out."""
    calls = usage["tool_calls"]
    parts = [
        f"{usage['prompt_tokens']} + {usage['generated_tokens']} tokens" if usage["generated_tokens"] else "",
        f"{usage['tokens_per_second']:.1f} tok/s" if usage["tokens_per_second"] else "",
        f"{100 * reused // prompt} % of the prompts reused" if prompt else "",
        f"{calls} tool call{'s' * (calls != 1)}" if calls else "",
        f"{usage['seconds']:.1f} s",
    ]
    return " · ".join(part for part in parts if part)
