"""Lesson 03: what a node returns, and how it becomes the state."""

import re
from collections.abc import Callable
from typing import Annotated, TypedDict

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.errors import InvalidUpdateError
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from agentkit.lab.verdict import Verdict, not_yet, right

PREDICTIONS = {
    "two questions": (
        "The state says messages: list. One thread gets two questions and two answers. "
        "How many messages does it hold at the end?",
        ["4: two questions, two answers", "2: the last question and its answer", "1: the last answer"], 2,
        "Without a reducer an update replaces what was there. The second question replaced the first answer, and the "
        "second answer replaced the question."),
    "the same id twice": (
        "The state says Annotated[list, operator.add] and holds a draft with id a1. A node "
        "returns the corrected message, with the same id. How many messages does the state hold?",
        ["1: the corrected one", "2: the draft and the corrected one"], 1,
        "operator.add joins two lists. It knows nothing of ids, so nothing is corrected."),
}
KEPT = 3
QUESTION = HumanMessage("How do I get to the island?", id="q1")
DRAFT = AIMessage("Take the train.", id="a1")


def remembers(reducer: Callable[[list, list], list]) -> Verdict:
    """Whether a reducer keeps the newest three different entries, the newest last, and leaves its arguments alone."""
    for old, new, wanted, told in _CASES:
        given = list(old), list(new)
        try:
            got = reducer(*given)
        except Exception as error:  # noqa: BLE001 - a reader's function may raise anything
            return not_yet(f"{_asked(old, new)} raised {type(error).__name__}: {error}. At first the old value is an "
                           "empty list.")
        if given != (old, new):
            return not_yet(f"{_asked(old, new)} changed a list that it was given. The old state may be part of a saved "
                           "checkpoint: make a new list.")
        if got != wanted:
            return not_yet(f"{_asked(old, new)} gave {got!r}. {told.get(_kind(got, old, new), told['else'])}")
    both = _together(reducer)
    if sorted(both) != ["Lima", "Oslo"]:
        return not_yet(f"In a graph in which two nodes write at once the key ended as {both!r}; both entries should be "
                       "there.")
    return right("Old entries stay, none is there twice, and the list cannot grow for ever. Two nodes may write at "
                 "once.")


def journey(schema: type) -> CompiledStateGraph:
    """The graph of the second exercise over a state class: `ferry` and `train` at once, then `correct`."""

    def ferry(state):
        return {"offers": ["ferry at 07:40"], "spent": 2, "stage": "asked"}

    def train(state):
        return {"offers": ["train at 08:15"], "spent": 3, "stage": "asked"}

    def correct(state):
        return {"messages": [AIMessage("Take the ferry.", id=DRAFT.id)]}

    graph = StateGraph(schema)
    for node in (ferry, train, correct):
        graph.add_node(node)
    graph.add_edge(START, "ferry")
    graph.add_edge(START, "train")
    graph.add_edge(["ferry", "train"], "correct")
    return graph.compile()


def trip(schema: type) -> Verdict:
    """Whether the repaired state of the journey keeps what every node wrote, each key in its own way."""
    try:
        state = journey(schema).invoke({"messages": [QUESTION, DRAFT], "offers": [], "spent": 0, "stage": ""})
    except InvalidUpdateError as error:
        key = re.search(r"key '(\w+)'", str(error))
        named = key[1] if key else "one key"
        return not_yet(f"ferry and train both write {named} in one superstep, and the state does not say "
                       "how two updates become one value. Which value would you want there?")
    except Exception as error:  # noqa: BLE001 - a reducer that does not fit its type raises what it likes
        return not_yet(f"The run ended with {type(error).__name__}: {error}. Does each reducer fit the type of "
                       "its key?")
    for key, look in (("offers", _offers), ("spent", _spent), ("stage", _stage), ("messages", _messages)):
        if key not in state:
            return not_yet(f"The state has no {key} any more. Keep the four keys, and change how updates are merged.")
        if told := look(state[key]):
            return not_yet(told)
    return right("Four keys, and each says for itself what happens when an update comes: join, add up, take the later, "
                 "correct by id.")


_ALL = {"nothing": "A reducer returns the whole new value of its key, as a list.",
        "overwritten": "What was there before is gone. The new value must hold the old entries, too."}
_CASES = [
    ([], ["Lima"], ["Lima"], {**_ALL, "else": "There was nothing before, so the new entry is all there is."}),
    (["Lima"], ["Oslo"], ["Lima", "Oslo"], {**_ALL, "else": "Old entries stay in front, new ones come last."}),
    (["Lima", "Oslo"], ["Lima"], ["Oslo", "Lima"], {
        **_ALL, "twice": "Lima is there twice.",
        "else": "An entry that comes again is the newest one: its place is at the end."}),
    ([], ["Lima", "Lima"], ["Lima"], {**_ALL, "else": "One update may hold an entry twice, too."}),
    (["Lima", "Oslo", "Bern"], ["Riga"], ["Oslo", "Bern", "Riga"], {
        **_ALL, "long": f"That is more than {KEPT} entries: it would grow with every step.",
        "else": "When there are too many, the oldest one goes, and it stands in front."}),
    (["Lima", "Oslo", "Bern"], ["Bern"], ["Lima", "Oslo", "Bern"], {
        **_ALL, "else": "Nothing new came, so nothing may be lost. Take out the double before you count to three."}),
]


def _asked(old: list, new: list) -> str:
    return f"Your reducer with {old!r} and {new!r}"


def _kind(got: object, old: list, new: list) -> str:
    if not isinstance(got, list):
        return "nothing"
    if old and got == new:
        return "overwritten"
    if len(got) > KEPT:
        return "long"
    return "twice" if len(set(map(str, got))) < len(got) else "else"


def _together(reducer: Callable[[list, list], list]) -> list:
    class Places(TypedDict):
        places: Annotated[list, reducer]

    graph = StateGraph(Places)
    for name in ("Lima", "Oslo"):
        graph.add_node(name, lambda state, name=name: {"places": [name]})
        graph.add_edge(START, name)
    return graph.compile().invoke({"places": []})["places"]


def _offers(offers: object) -> str:
    if isinstance(offers, list) and len(offers) == 2:
        return ""
    return f"offers is {offers!r}. The ferry and the train each found one: both should be there."


def _spent(spent: object) -> str:
    return "" if spent == 5 else f"spent is {spent!r}. The ferry cost 2 and the train 3: what was spent in all?"


def _stage(stage: object) -> str:
    return "" if stage == "asked" else f"stage is {stage!r}. Both nodes say 'asked', and it is one stage, not two."


def _messages(messages: list) -> str:
    texts = [str(m.text) for m in messages if hasattr(m, "text")]
    if len(texts) == 2 and texts[0] == QUESTION.text and texts[1] != DRAFT.text:
        return ""
    if len(texts) == 1:
        return f"messages holds only {texts[0]!r}. The question is gone: the correction replaced the whole list."
    return (f"messages holds {texts!r}. The correction has the id of the draft and should take its place; this reducer "
            "does not look at ids.")
