"""Lesson 06's checks: what is wrong fails with the message meant for it, what is right passes."""

import pytest
from langchain.agents.middleware import ModelCallLimitMiddleware
from langgraph.errors import GraphRecursionError

from agentkit.lab import predict
from agentkit.lab.check import limits as check


@pytest.mark.parametrize(("least_limit", "says"), [
    (None, "Define the function least_limit"),
    (lambda rounds: 25, "For rounds=[] you say 25; create_agent got through with 24 as well"),
    (lambda rounds: 2 * len(rounds) + 1, "Nothing is left to notice the end"),
    (lambda rounds: 2, "What is one superstep?"),
    (lambda rounds: 2 * sum(rounds) + 2, "Calls of one message run in one superstep"),
    (lambda rounds: 2.0 * len(rounds) + 2, "a whole number"),
    (lambda rounds: 0, "1 or more"),
    (lambda rounds: None, "you say None"),
])
def test_a_limit_that_is_wrong_is_run_and_told(least_limit, says):
    verdict = check.least_limit(least_limit)
    assert not verdict.ok and says in verdict.text


def test_the_least_limit_passes():
    assert check.least_limit(lambda rounds: 2 * len(rounds) + 2).ok


def test_a_run_ends_with_the_answer_or_raises_and_hooks_are_steps():
    assert check.run([2, 1], 6)["messages"][-1].text == "done"
    with pytest.raises(GraphRecursionError):
        check.run([2, 1], 5)
    counting = [ModelCallLimitMiddleware(run_limit=9)]
    with pytest.raises(GraphRecursionError):
        check.run([2, 1], 11, counting)
    assert check.run([2, 1], 12, counting)["messages"][-1].text == "done"


def same(past, call):
    return (past.name, past.args) == (call.name, call.args)


def failed(past, call):
    return same(past, call) and past.status == "error"


@pytest.mark.parametrize(("must_stop", "says"), [
    (None, "Define the function must_stop"),
    (lambda call, before: True, "A first call always runs"),
    (lambda call, before: False, "A third is the loop"),
    (lambda call, before: failed(before[-1], call), "raised IndexError"),
    (lambda call, before: bool(before) and failed(before[-1], call), "A second try is fair"),
    (lambda call, before: sum(same(past, call) for past in before) >= 2, "Waiting is not failing"),
    (lambda call, before: [past.status for past in before[-2:]] == ["error"] * 2, "The arguments changed"),
    (lambda call, before: sum(failed(past, call) for past in before) >= 2, "They were not in a row"),
    (lambda call, before: len(before) > 1 and same(before[-1], call) and failed(before[-2], call), "The last try succeeded"),
    (lambda call, before: len(before) == 2 and all(failed(past, call) for past in before), "its last two calls failed"),
    (lambda call, before: len(before) > 1 and all(
        past.args == call.args and past.status == "error" for past in before[-2:]), "It is another tool"),
])
def test_a_guard_that_errs_is_told_what_it_overlooks(must_stop, says):
    verdict = check.guard(must_stop)
    assert not verdict.ok and says in verdict.text


def test_a_good_guard_passes():
    assert check.guard(lambda call, before: len(before) > 1 and all(failed(past, call) for past in before[-2:])).ok


@pytest.mark.parametrize("name", check.PREDICTIONS)
def test_predictions_hold_an_answer(name):
    question = predict(f"limits: {name}")
    question.choice.value = question.options[check.PREDICTIONS[name][2]]
    assert question.reveal().startswith("Yes.")
