"""Lesson 01: a loop by hand, and what a reply may do to it."""

from collections.abc import Callable

from langchain_core.messages import AIMessage, HumanMessage

from agentkit.lab.verdict import Verdict, not_yet, right
from agentkit.loops.result import RunResult

PREDICTIONS = {
    "an invented observation": (
        "The model does not wait. In one reply it writes an Action, then 'Observation: 500' and 'Final Answer: 500'. "
        "What does your loop return?",
        ["437: it runs the tool first", "500: it believes the reply, and no tool runs", "nothing: it stops with an "
                                                                                        "error"], 1,
        "The reply holds the words Final Answer, so the loop is over. To a model an Observation is text like any "
        "other, "
        "and the likeliest text after an Action."),
}

_CALL = 'Thought: I calculate.\nAction: calculator\nAction Input: {"expression": "1+1"}'
_MENTION = 'Thought: After the Action comes an "Observation:" line.\n' + _CALL
_LINES = {"\nObservation: 2\nFinal Answer: 2": "Observation:", "\n**Observation:** 3": "**Observation:**",
          "\n  Observation: 2": "Observation: behind two blanks"}


def stops_at_observation(cut: Callable[[str], str]) -> Verdict:
    """Whether `cut` returns a reply without what the model invented, and leaves every other reply whole."""
    for reply in (_CALL, _MENTION):
        try:
            kept = cut(reply)
        except Exception as error:  # noqa: BLE001 - the reader's function may raise anything
            return not_yet(f"On a reply without an invented Observation it raised {type(error).__name__}: {error}. "
                           f"Such replies "
                           "are the normal case.")
        if not isinstance(kept, str):
            return not_yet(f"It returned {kept!r}. It should return the reply as text, shortened or not.")
        if kept.strip() != reply:
            return not_yet("It shortened a reply in which nothing is invented: there the word Observation stands "
                           "inside a "
                           f"sentence, or not at all. What is left is {kept.strip()!r}. Only the beginning of a line "
                           f"counts.")
    for tail, label in _LINES.items():
        kept = cut(_CALL + tail)
        if not isinstance(kept, str) or kept.strip() != _CALL:
            return not_yet(f"A line that begins with {label} is still there, or too much is gone: {kept!r}. Look for "
                           f"a line break, "
                           "then what may stand before the word.")
    return right("What the model invented is gone, and a sentence about an Observation stays. The package does the "
                 "same in "
                 "react_text.parse, and asks the model's server to stop there, too.")


def recovered(result: RunResult | None) -> Verdict:
    """Whether a turn of `handmade` holds exactly one nudge, one run of the calculator, and ends in an answer."""
    if result is None:
        return not_yet("Write the replies into the list `tape`, then run both cells again.")
    told = [str(message.text) for message in result.messages if isinstance(message, HumanMessage)][1:]
    nudges = [text for text in told if text.startswith("Error:")]
    seen = [text for text in told if text.startswith("Observation:")]
    failed = [text for text in seen if text.startswith("Observation: Error")]
    if result.reason == "error" and "tape" in str(result.error):
        return not_yet("The loop asked for one more reply than the tape has. The turn must end in a Final Answer.")
    if result.reason != "answer":
        return not_yet(f"The turn ended with the reason {result.reason!r}. It should end in an answer.")
    if failed:
        return not_yet(f"The calculator was called and could not work: {failed[0]!r}. Look at its argument.")
    if not seen:
        return not_yet("No tool ran. One reply should be an Action with an Action Input that the calculator "
                       "understands.")
    if not nudges:
        return not_yet("Every reply was readable, so there was no nudge. Let the first reply break the format.")
    if len(nudges) > 1:
        return not_yet(f"There were {len(nudges)} nudges. One reply is to break the format, the others are to keep "
                       f"to it.")
    if not isinstance(result.messages[-1], AIMessage) or len(seen) > 1:
        return not_yet(f"The tool ran {len(seen)} times; once is enough.")
    return right("A nudge, a result, an answer. One bad reply costs one step, and the count of mistakes begins anew.")
