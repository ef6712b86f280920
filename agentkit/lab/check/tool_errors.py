"""Lesson 05: a tool fails, and what becomes of the run."""

import inspect
from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from agentkit.lab.verdict import Verdict, not_yet, right

PREDICTIONS = {
    "a tool raises": (
        "LangGraph's ToolNode, left as it is, runs a tool that raises FileNotFoundError. What happens?",
        ["the model gets a message that says so", "the exception ends the run", "the tool is tried again, then the run ends"], 1,
        "Since langgraph-prebuilt 1.0.8 only bad arguments and unknown names become messages. The tool's own exception goes on."),
    "a guard stops": (
        "A guard around the tools raises an ordinary exception to end the run. The tool node has a handler for "
        "FileNotFoundError only. What happens?",
        ["the run ends, as the guard wants", "the handler gets it and the run goes on", "the tool runs after all"], 1,
        "For exceptions of the tool the types count. For those of a wrapper around it, where guards sit, they do not: "
        "any handler gets any exception."),
}

FILES = {"harbour_notice.txt": "The ferry leaves at nine.", "prices.txt": "A ticket costs 12."}


class Stop(Exception):
    """A guard's own exception: the run must end, and nobody may turn it into a message."""


def read_one(name: str) -> str:
    """The text of one of FILES. Raises FileNotFoundError, or Stop for a name that a guard forbids."""
    if name == "secret.txt":
        raise Stop("secret.txt must not be read")
    if name not in FILES:
        raise FileNotFoundError(name)
    return FILES[name]


@tool
def open_file(name: str, line: int = 1) -> str:
    """Open a file."""
    return read_one(name)


def _forbid(request: Any, execute: Callable) -> Any:
    raise Stop("no more calls")


def _fate(handler: Callable, wrapper: Callable | None = None, **args: Any) -> ToolMessage | Exception:
    """What a call of `open_file` comes to in a tool node with this handler: its message, or the exception that got out."""
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([open_file], handle_tool_errors=handler, wrap_tool_call=wrapper))
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    call = AIMessage("", tool_calls=[{"name": "open_file", "args": args, "id": "1"}])
    try:
        return graph.compile().invoke({"messages": [call]})["messages"][-1]
    except Exception as error:
        return error


def handler(given: Callable[[Exception], str] | None) -> Verdict:
    """Whether `given`, as `handle_tool_errors`, helps with missing files and bad arguments and lets a guard pass."""
    if not callable(given) or isinstance(given, type):
        return not_yet("Define the function handler(error) first. It returns what the model should read.")
    missing = _fate(given, name="price.txt")
    if isinstance(missing, Exception):
        return not_yet(f"A missing file still ends the run ({type(missing).__name__}). Return a text for FileNotFoundError.")
    text = str(missing.text)
    if "price.txt" not in text:
        return not_yet(f"The model reads {text!r}. It does not learn which file is missing: put the error's own text in.")
    if not all(name in text for name in FILES):
        return not_yet(f"The model reads {text!r}. It knows what is wrong, not what to do. Name the files that are there: {', '.join(FILES)}.")
    bad = _fate(given, name="prices.txt", line="two")
    if isinstance(bad, Exception):
        return not_yet(
            f"Bad arguments now end the run ({type(bad).__name__}), though the model could mend them. They reach a handler "
            "as ToolInvocationError; is your annotation, or your last line, too narrow for it?")
    if "line" not in bad.text or "prices.txt is" in bad.text:
        return not_yet(f"For line='two' the model reads {bad.text!r}. That does not say which argument is wrong; error.message does.")
    inside, around = _fate(given, name="secret.txt"), _fate(given, _forbid, name="prices.txt")
    for place, seen in (("inside the tool", inside), ("in a wrapper around the tool", around)):
        if not isinstance(seen, Exception):
            return not_yet(f"A guard raised Stop {place}, and the model read {seen.text!r} instead. What a handler does not know it must raise again.")
        if not isinstance(seen, Stop):
            return not_yet(f"A guard raised Stop {place}, and {type(seen).__name__} came out. Raise the same exception again.")
    return right("A missing file and bad arguments become help for the model, and what is not yours to handle goes on.")


def batch(given: Callable[[list[str]], list[str]] | None) -> Verdict:
    """Whether `given(names)` reads all names with `read_one`: in order, each error in its place, a guard's let pass."""
    if not callable(given):
        return not_yet("Define the function read_all(names) first. It returns one text a name.")
    names = ["prices.txt", "gone.txt", "harbour_notice.txt", "lost.txt", "prices.txt"]
    try:
        texts = given(list(names))
    except FileNotFoundError as error:
        return not_yet(f"{error} is missing, and so the whole batch failed: the model gets nothing of the files that are there.")
    except Exception as error:
        return not_yet(f"read_all raised {type(error).__name__}: {error}")
    if inspect.isgenerator(texts):
        return not_yet("read_all gave a generator. A tool's result is data: return a list.")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        return not_yet(f"read_all gave {texts!r}. Return a list of texts.")
    if len(texts) != len(names):
        return not_yet(f"{len(names)} names went in and {len(texts)} texts came out. The model counts on one result a name, errors included.")
    for name, text in zip(names, texts):
        if text != FILES[name] if name in FILES else text in FILES.values():
            return not_yet(f"In the place of {name} stands {text!r}. Results must keep the order of the names.")
        if name not in FILES and name not in text:
            return not_yet(f"In the place of {name} stands {text!r}. An error must say which file it is about.")
        if name not in FILES and "error" not in text.lower():
            return not_yet(f"In the place of {name} stands {text!r}. Begin it with 'Error:', or the model takes it for the file's text.")
    try:
        leaked = given(["prices.txt", "secret.txt"])
    except Stop:
        return right("One bad name costs one place of the batch, no more; and a guard still ends it all.")
    except Exception as error:
        return not_yet(f"A guard raised Stop for secret.txt, and {type(error).__name__} came out. Let it pass as it is.")
    return not_yet(f"A guard raised Stop for secret.txt, and read_all gave {leaked!r}. Catch only what you can name.")
