"""Lesson 05's checks: what is wrong fails with the message meant for it, what is right passes."""

import pytest
from langgraph.prebuilt.tool_node import ToolInvocationError

from agentkit.lab import predict
from agentkit.lab.check import tool_errors as check


def good(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"Error: {error} is not there. There are {', '.join(check.FILES)}."
    if isinstance(error, ToolInvocationError):
        return error.message
    raise error


def too_narrow(error: FileNotFoundError) -> str:
    return good(error)


def not_the_remedy(error: Exception) -> str:
    return f"Error: {error}"


def no_name(error: Exception) -> str:
    return "Error: something went wrong"


def deaf_to_arguments(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return good(error)
    if isinstance(error, ToolInvocationError):
        return "Error: bad call"
    raise error


def one_remedy_for_all(error: Exception) -> str:
    return f"Error: {error}. There are {', '.join(check.FILES)}."


def typed_and_calm(error: FileNotFoundError | ToolInvocationError) -> str:
    """Passes a guard inside the tool, by its types; not one in a wrapper."""
    return error.message if isinstance(error, ToolInvocationError) else one_remedy_for_all(error)


def another_exception(error: Exception) -> str:
    if isinstance(error, check.Stop):
        raise RuntimeError("stop")
    return good(error)


def ends_the_run(error: Exception) -> str:
    raise error


@pytest.mark.parametrize(("handler", "says"), [
    (None, "Define the function handler"),
    (FileNotFoundError, "Define the function handler"),
    (ends_the_run, "still ends the run"),
    (no_name, "does not learn which file"),
    (not_the_remedy, "not what to do"),
    (too_narrow, "Bad arguments now end the run (ToolInvocationError)"),
    (deaf_to_arguments, "does not say which argument"),
    (one_remedy_for_all, "raised Stop inside the tool, and the model read"),
    (typed_and_calm, "raised Stop in a wrapper around the tool, and the model read"),
    (another_exception, "RuntimeError came out"),
])
def test_a_handler_that_errs_is_told_what_it_overlooks(handler, says):
    verdict = check.handler(handler)
    assert not verdict.ok and says in verdict.text


def test_a_good_handler_passes():
    assert check.handler(good).ok


def reading(name, caught=FileNotFoundError, error="Error: {} does not exist"):
    try:
        return check.read_one(name)
    except caught:
        return error.format(name)


@pytest.mark.parametrize(("read_all", "says"), [
    (None, "Define the function read_all"),
    (lambda names: [check.read_one(name) for name in names], "the whole batch failed"),
    (lambda names: 1 / 0, "ZeroDivisionError"),
    (lambda names: (reading(name) for name in names), "a generator"),
    (lambda names: None, "Return a list of texts"),
    (lambda names: [check.FILES[name] for name in names if name in check.FILES], "5 names went in and 3 texts"),
    (lambda names: sorted(reading(name) for name in names), "keep the order"),
    (lambda names: [reading(name, error="Error: not there") for name in names], "which file it is about"),
    (lambda names: [reading(name, error="{} is not there") for name in names], "Begin it with 'Error:'"),
    (lambda names: [reading(name, caught=Exception) for name in names], "Catch only what you can name"),
])
def test_a_batch_that_errs_is_told_what_it_overlooks(read_all, says):
    verdict = check.batch(read_all)
    assert not verdict.ok and says in verdict.text


def test_a_batch_that_turns_a_guard_s_exception_into_another_is_told_so():
    def read_all(names):
        try:
            return [reading(name) for name in names]
        except check.Stop:
            raise RuntimeError("stopped") from None

    assert "RuntimeError came out" in check.batch(read_all).text


def test_a_good_batch_passes():
    assert check.batch(lambda names: [reading(name) for name in names]).ok


@pytest.mark.parametrize("name", check.PREDICTIONS)
def test_predictions_hold_an_answer(name):
    question = predict(f"tool_errors: {name}")
    question.choice.value = question.options[check.PREDICTIONS[name][2]]
    assert question.reveal().startswith("Yes.")
