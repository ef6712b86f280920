"""Checks of lesson 01: each wrong answer gets the message meant for it, the right one passes."""

import re

import pytest

from agentkit.lab.check import loop_by_hand as check
from agentkit.loops import build_agent
from agentkit.models import ScriptedChatModel
from agentkit.tools import tools_for

ACT = 'Action: calculator\nAction Input: {"expression": "2 + 2"}'


def cut(reply):
    return re.split(r"^[ *]*Observation:", reply, flags=re.MULTILINE)[0]


def test_a_good_cut_is_right():
    assert check.stops_at_observation(cut).ok


@pytest.mark.parametrize(("wrong", "told"), [
    (lambda reply: reply, "begins with Observation: is still there"),
    (lambda reply: reply.split("Observation:")[0], "Only the beginning of a line counts"),
    (lambda reply: reply.split("\nObservation:")[0], "begins with **Observation:**"),
    (lambda reply: re.split(r"\n\**Observation:", reply)[0], "behind two blanks"),
    (lambda reply: reply[:reply.index("\nObservation:")], "raised ValueError"),
    (lambda reply: None, "It should return the reply as text"),
    (lambda reply: "", "nothing is invented"),
])
def test_a_wrong_cut_is_told_what_is_wrong(wrong, told):
    verdict = check.stops_at_observation(wrong)
    assert not verdict.ok and told in verdict.text


def played(*tape):
    return build_agent("handmade", model=ScriptedChatModel(list(tape)), tools=tools_for(["calculator"])).run("2 plus 2?")


def test_a_nudge_a_result_and_an_answer_are_right():
    assert check.recovered(played("It is 4.", ACT, "Final Answer: 4")).ok


@pytest.mark.parametrize(("tape", "told"), [
    ((ACT, "Final Answer: 4"), "Let the first reply break the format"),
    (("It is 4.", "Final Answer: 4"), "No tool ran"),
    (("It is 4.", "Yes.", ACT, "Final Answer: 4"), "There were 2 nudges"),
    (("It is 4.",), "one more reply than the tape has"),
    (("It is 4.", "4", "4"), "ended with the reason 'malformed'"),
    (("It is 4.", ACT.replace("2 + 2", "two and two"), "Final Answer: 4"), "could not work"),
    (("It is 4.", ACT, ACT.replace("2 + 2", "3 + 3"), "Final Answer: 4"), "The tool ran 2 times"),
])
def test_another_tape_is_told_what_it_lacks(tape, told):
    verdict = check.recovered(played(*tape))
    assert not verdict.ok and told in verdict.text


def test_an_untouched_stub_is_asked_for_a_tape():
    verdict = check.recovered(None)
    assert not verdict.ok and "tape" in verdict.text
