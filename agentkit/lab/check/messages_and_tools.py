"""Lesson 02: messages, tools, and reading calls out of text."""

from collections.abc import Callable, Sequence

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool

from agentkit.lab.dissect import disagreement
from agentkit.lab.verdict import Verdict, not_yet, right
from agentkit.models.tool_calls import parse

PREDICTIONS = {
    "a torn call": (
        "The model's call arrives torn: its arguments are not valid JSON. LangChain's create_agent gets this message. "
        "What happens next?",
        ["it asks the model to write the call again", "it raises an error",
         "the turn is over: no tool ran, the answer is empty, nothing is raised"], 2,
        "A torn call is kept in invalid_tool_calls. The agent looks at tool_calls only, finds none, and takes the "
        "message "
        "for the final answer."),
}


@tool
def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


@tool
def fail(reason: str) -> str:
    """Always fail."""
    raise ValueError(reason)


TOOLS = (double, fail)


def mentions_and_calls(text: str) -> Verdict:
    """Whether a raw text speaks of <tool_call> in its answer and makes exactly one call, however it is cut."""
    if not text.strip():
        return not_yet("Write a raw text between the quotes, then run both cells again.")
    parsed = parse(text)
    if parsed.invalid_tool_calls:
        refused = parsed.invalid_tool_calls[0]
        return not_yet(f"A call was refused: {refused['error']}. Compare yours with the text of the first preset.")
    if not parsed.tool_calls:
        return not_yet("No call was found in it. A call is a JSON object with name and arguments between the two tags.")
    if len(parsed.tool_calls) > 1:
        return not_yet(f"It makes {len(parsed.tool_calls)} calls; make it one.")
    if "<tool_call>" not in parsed.content:
        return not_yet(f"The call is there, but the answer says only {parsed.content!r}. It should speak of "
                       f"<tool_call> as well; "
                       "put it into a sentence.")
    count, other = disagreement(text)
    if other:
        return not_yet(f"Cut as {other!r} it gives another message. Please report this text: no chunking may do that.")
    return right(f"One tag is prose, the other a call. Cut in {count} ways, it is the same each time.")


def answers_every_call(answer: Callable[[AIMessage, Sequence], list]) -> Verdict:
    """Whether `answer(message, tools)` gives one result a call: in order, by id, errors marked, torn ones too."""
    calls = [{"id": "a", "name": "double", "args": {"number": 4}},
             {"id": "b", "name": "fail", "args": {"reason": "no ink"}},
             {"id": "c", "name": "missing", "args": {}}, {"id": "d", "name": "double", "args": {"number": 8}}]
    torn = {"id": "e", "name": "double", "args": '{"number": 1',
            "error": "cut by the token limit", "type": "invalid_tool_call"}
    for message, hint in (
        (AIMessage("", tool_calls=calls[:1]), "a call that works"),
        (AIMessage("", tool_calls=calls[:2]), "a tool that raises"),
        (AIMessage("", tool_calls=calls), "a tool that does not exist"),
        (AIMessage("", tool_calls=calls[:1], invalid_tool_calls=[torn]), "a torn call in invalid_tool_calls"),
    ):
        try:
            results = answer(message, TOOLS)
        except Exception as error:  # noqa: BLE001 - the reader's function may raise anything
            return not_yet(f"With {hint} your function raised {type(error).__name__}: {error}. A model can only "
                           f"correct what it "
                           "is told: catch it and answer with an error.")
        if problem := _wrong(results, message, hint):
            return not_yet(problem)
    return right("Every call has its result, in order and by id, and whatever went wrong is marked as an error. That "
                 "is a tool node.")


def _wrong(results: object, message: AIMessage, hint: str) -> str | None:
    if not isinstance(results, list) or not all(isinstance(result, ToolMessage) for result in results):
        return f"With {hint} it returned {results!r}. It should return a list of ToolMessage."
    wanted = [call["id"] for call in [*message.tool_calls, *message.invalid_tool_calls]]
    ids = [result.tool_call_id for result in results]
    if ids != wanted:
        return (f"With {hint} the calls have the ids {wanted}, and your results are for {ids}. Each call needs one "
                "result, in the same order; tool_call_id says which call it is for.")
    for result in results:
        works = result.tool_call_id in ("a", "d")
        if works and result.status == "error":
            return f"Call {result.tool_call_id!r} works, but its result is marked as an error: {result.content!r}."
        if works and str({"a": 8, "d": 16}[result.tool_call_id]) not in str(result.content):
            return f"The result of call {result.tool_call_id!r} is {result.content!r}, not what the tool returns."
        if not works and result.status != "error":
            return (f"With {hint}, result {result.tool_call_id!r} has the status {result.status!r}. What went wrong "
                    f"must be "
                    "marked, by the field that part 4 showed.")
    return None
