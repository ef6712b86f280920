"""Scoring rules of the tool-calling set, on replayed messages."""

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from agentkit.evals.tool_calls import Case, Expected, argument_problem, run_case, same, score
from agentkit.models.errors import ContextFull


def tool(name, required=(), **properties):
    return {"type": "function", "function": {"name": name, "description": name, "parameters": {
        "type": "object", "properties": properties, "required": list(required)}}}


TOOLS = [
    tool("brew", ["cups"], cups={"type": "integer"}, roast={"type": "string", "default": "dark"},
         sugar={"type": "boolean"}),
    tool("shop", ["item"], item={"type": "string"}),
]
BREW = Expected("brew", {"cups": 2}, {}, "Coffee is ready.")
ONE = Case("one", "single", TOOLS, [{"role": "user", "content": "Two cups."}], [BREW])
NONE = Case("no", "none", TOOLS, [{"role": "user", "content": "Hi."}], [])
TWO = Case("two", "two_calls", TOOLS, [{"role": "user", "content": "Two cups, then buy milk."}],
           [BREW, Expected("shop", {"item": "milk"}, {"item": ["Milk"]})])


def verdict(outcome):
    return tuple(outcome.marks[m] for m in ("well_formed", "right_tool", "exact"))


def test_the_right_call(replay, calls):
    outcome = run_case(replay(calls(("brew", {"cups": 2}))), ONE)
    assert verdict(outcome) == (True, True, True)
    assert outcome.reason == ""
    assert outcome.calls == [{"name": "brew", "arguments": {"cups": 2}}]


@pytest.mark.parametrize(
    ("pairs", "expected", "reason"),
    [
        ([("brew", {"cups": 3})], (True, True, False), "brew: cups is 3, expected 2"),
        ([("brew", {})], (True, True, False), "brew: cups is missing, expected 2"),
        ([("brew", {"cups": 2, "sugar": True})], (True, True, False), "brew: sugar=True was not asked for"),
        ([("brew", {"cups": 2, "roast": "dark"})], (True, True, True), ""),
        ([("brew", {"cups": 2, "roast": "light"})], (True, True, False), "brew: roast='light' was not asked for"),
        ([("shop", {"item": "cups"})], (True, False, False), "called shop, expected brew"),
        ([], (True, False, False), "called nothing, expected brew"),
        ([("brew", {"cups": 2}), ("brew", {"cups": 2})], (True, False, False), "called brew, brew, expected brew"),
    ],
)
def test_single_calls(replay, calls, pairs, expected, reason):
    outcome = run_case(replay(calls(*pairs)), ONE)
    assert verdict(outcome) == expected
    assert outcome.reason == reason


def test_an_undecodable_call(replay, calls):
    bad = [{"name": "brew", "args": '{"cups": ', "id": "x", "error": "cut off", "type": "invalid_tool_call"}]
    outcome = run_case(replay(calls(invalid_tool_calls=bad)), ONE)
    assert verdict(outcome) == (False, False, False)
    assert '{"cups": ' in outcome.reason
    beside = run_case(replay(calls(("brew", {"cups": 2}), invalid_tool_calls=bad)), ONE)
    assert verdict(beside) == (False, True, False)


def test_a_call_left_in_the_text(replay, calls):
    outcome = run_case(replay(AIMessage('<tool_call>{"name": "brew"')), ONE)
    assert verdict(outcome) == (False, False, False)
    blocks = [{"type": "text", "text": "Sure. <tool_"}, {"type": "text", "text": "call>"}]
    assert verdict(run_case(replay(calls(("brew", {"cups": 2}), content=blocks)), ONE)) == (False, True, False)
    assert verdict(run_case(replay(calls(("brew", {"cups": 2}), content="Here you go.")), ONE)) == (True, True, True)


def test_no_call_wanted(replay, calls):
    assert verdict(run_case(replay(AIMessage("Hello!")), NONE)) == (True, True, True)
    assert verdict(run_case(replay(calls(("brew", {"cups": 1}))), NONE)) == (True, False, False)
    assert verdict(run_case(replay(AIMessage("<tool_call>oops")), NONE)) == (False, False, False)


def test_two_calls_see_the_result_in_between(replay, calls):
    model = replay(calls(("brew", {"cups": 2})), calls(("shop", {"item": "Milk"})))
    assert verdict(run_case(model, TWO)) == (True, True, True)
    first, second = model.asked
    assert [m.content for m in first] == ["Two cups, then buy milk."]
    assert isinstance(second[1], AIMessage) and second[1].tool_calls[0]["name"] == "brew"
    assert isinstance(second[2], ToolMessage)
    assert (second[2].content, second[2].tool_call_id) == ("Coffee is ready.", "c0")


def test_a_first_call_with_wrong_arguments_still_gets_its_result(replay, calls):
    model = replay(calls(("brew", {"cups": 9})), calls(("shop", {"item": "milk"})))
    assert verdict(run_case(model, TWO)) == (True, True, False)


def test_a_wrong_first_call_ends_the_case(replay, calls):
    model = replay(calls(("shop", {"item": "milk"})))
    outcome = run_case(model, TWO)
    assert verdict(outcome) == (True, False, False)
    assert len(model.asked) == 1
    assert outcome.reason == "called shop, expected brew, shop"


def test_two_calls_that_stop_after_the_first(replay, calls):
    outcome = run_case(replay(calls(("brew", {"cups": 2})), AIMessage("Done.")), TWO)
    assert verdict(outcome) == (True, False, False)
    assert outcome.reason == "called brew, expected brew, shop"
    assert outcome.text == "Done."


def test_both_calls_in_one_message_count_as_the_two(replay, calls):
    model = replay(calls(("brew", {"cups": 2}), ("shop", {"item": "milk"})))
    assert verdict(run_case(model, TWO)) == (True, True, True)
    turned = replay(calls(("shop", {"item": "milk"}), ("brew", {"cups": 2})))
    assert verdict(run_case(turned, TWO)) == (True, False, False)


def test_a_prompt_that_does_not_fit_fails_its_case_only(replay, calls):
    answers = [ContextFull("4200 of 2048 tokens"), calls(("brew", {"cups": 2}))]

    def answer(messages, tools):
        now = answers.pop(0)
        if isinstance(now, Exception):
            raise now
        return now

    report = score(replay(answer=answer), [NONE, ONE])
    assert [o.right for o in report.outcomes] == [False, True]
    assert report.outcomes[0].reason == "prompt too long: 4200 of 2048 tokens"


def test_time_tokens_and_progress_are_kept(replay, calls):
    used = {"input_tokens": 90, "output_tokens": 12, "total_tokens": 102}
    model = replay(calls(("brew", {"cups": 2}), usage_metadata=used),
                   calls(("shop", {"item": "milk"}), usage_metadata=used), AIMessage("Hi!"))
    seen = []
    report = score(model, [TWO, NONE], lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]
    assert [o.tokens for o in report.outcomes] == [24, None]
    assert report.tokens == 24 and report.seconds > 0


@pytest.mark.parametrize(
    ("value", "expected", "equal"),
    [
        (5, 5.0, True), (5.0, 5, True), (5, 6, False), ("5", 5, False), (True, 1, False), (1, True, False),
        (True, True, True), (" Oslo ", "Oslo", True), ("oslo", "Oslo", False), ([1, 2], [1.0, 2], True),
        ([2, 1], [1, 2], False), ([1], [1, 2], False), ({"row": 5, "column": 9}, {"column": 9, "row": 5.0}, True),
        ({"row": 5}, {"row": 5, "column": 9}, False), (None, "", False), (None, None, True), ([], {}, False),
    ],
)
def test_equality_of_arguments(value, expected, equal):
    assert same(value, expected) is equal


def test_accepted_and_default_values():
    schema = {"properties": {"n": {"type": "integer", "default": 1}, "note": {"type": "string"}}, "required": []}
    given_default = Expected("t", {"n": 1}, {"note": ["x", "y"]})
    assert argument_problem(given_default, {}, schema) == ""
    assert argument_problem(given_default, {"note": "y"}, schema) == ""
    assert argument_problem(given_default, {"note": "z"}, schema) == "t: note='z' was not asked for"
    assert argument_problem(Expected("t", {"n": 3}), {}, schema) == "t: n is missing, expected 3"
    assert argument_problem(Expected("t", {}), {"made_up": 1}, schema) == "t: made_up=1 was not asked for"
