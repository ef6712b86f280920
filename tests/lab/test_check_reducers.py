"""Lesson 03's checks: every wrong answer fails with the message meant for it, the right one passes."""

import operator
from typing import Annotated, TypedDict

import pytest
from langgraph.graph.message import add_messages

from agentkit.lab.check import reducers
from agentkit.loops.state import latest


def newest(old, new):
    places = []
    for place in [*old, *new]:
        places = [kept for kept in places if kept != place] + [place]
    return places[-3:]


def in_place(old, new):
    old.extend(new)
    return newest(old, [])


def first_kept(old, new):
    return list(dict.fromkeys([*old, *new]))[-3:]




def cut_before_the_double_goes(old, new):
    return list(dict.fromkeys(reversed([*old, *new][-3:])))[::-1]


@pytest.mark.parametrize("wrong, says", [
    (lambda old, new: None, "returns the whole new value"),
    (lambda old, new: new, "What was there before is gone"),
    (operator.add, "Lima is there twice"),
    (first_kept, "its place is at the end"),
    (lambda old, new: [place for place in old if place not in new] + new, "may hold an entry twice"),
    (lambda old, new: [*dict.fromkeys(reversed([*old, *new]))][::-1], "more than 3 entries"),
    (lambda old, new: newest(old, new) if len(old) < 3 else old, "the oldest one goes"),
    (cut_before_the_double_goes, "before you count to three"),
    (in_place, "changed a list"),
    (lambda old, new: [old[-1], *new], "raised IndexError"),
    (lambda old, new: [*old, *new] if not old else [*new, *old], "new ones come last"),
])
def test_a_wrong_reducer_is_told_what_it_does(wrong, says):
    verdict = reducers.remembers(wrong)
    assert not verdict.ok and says in verdict.text


def test_a_reducer_that_keeps_the_newest_three_is_right():
    assert reducers.remembers(newest).ok


def state(**kinds):
    return TypedDict("Journey", {
        "messages": Annotated[list, add_messages], "offers": Annotated[list, operator.add],
        "spent": Annotated[int, operator.add], "stage": Annotated[str, latest], **kinds})


@pytest.mark.parametrize("wrong, says", [
    ({"offers": list}, "both write offers"),
    ({"spent": int}, "both write spent"),
    ({"stage": str}, "both write stage"),
    ({"offers": Annotated[list, latest]}, "both should be there"),
    ({"spent": Annotated[int, latest]}, "what was spent in all"),
    ({"stage": Annotated[str, operator.add]}, "'askedasked'"),
    ({"messages": Annotated[list, operator.add]}, "does not look at ids"),
    ({"messages": list}, "The question is gone"),
    ({"spent": Annotated[int, add_messages]}, "Does each reducer fit"),
])
def test_a_state_with_one_wrong_key_is_told_which(wrong, says):
    verdict = reducers.trip(state(**wrong))
    assert not verdict.ok and says in verdict.text


def test_a_key_that_was_taken_out_is_missed():
    class Short(TypedDict):
        messages: Annotated[list, add_messages]
        offers: Annotated[list, operator.add]

    assert "no spent any more" in reducers.trip(Short).text


def test_the_repaired_state_is_right():
    assert reducers.trip(state()).ok
