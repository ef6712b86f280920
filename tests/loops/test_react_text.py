"""Reading the text protocol: what models really write, and that no text at all can break the parser."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.loops.react_text import parse

SUM = {"expression": "1+1"}


def _thinking(text):
    return f"Thought: I need to calculate.\n{text}"


ACTIONS = {
    "plain": (_thinking('Action: calc\nAction Input: {"expression": "1+1"}'), SUM),
    "no thought": ('Action: calc\nAction Input: {"expression": "1+1"}', SUM),
    "JSON over several lines": (_thinking('Action: calc\nAction Input:\n{\n  "expression":\n    "1+1"\n}\n'), SUM),
    "nested JSON": (_thinking('Action: calc\nAction Input: {"a": {"b": [1, "}"]}}'), {"a": {"b": [1, "}"]}}),
    "blank lines": (_thinking('\nAction: calc\n\nAction Input:\n\n{"expression": "1+1"}\n\n'), SUM),
    "Windows line ends": (_thinking('Action: calc\r\nAction Input: {"expression": "1+1"}\r\n'), SUM),
    "a fence around the JSON": (_thinking('Action: calc\nAction Input:\n```json\n{"expression": "1+1"}\n```'), SUM),
    "a fence on the label's line": (_thinking('Action: calc\nAction Input: ```\n{"expression": "1+1"}\n```'), SUM),
    "a fence that is not closed": (_thinking('Action: calc\nAction Input:\n```json\n{"expression": "1+1"}'), SUM),
    "a fence around the reply": ('```\nThought: x\nAction: calc\nAction Input: {"expression": "1+1"}\n```', SUM),
    "both fences": ('```text\nAction: calc\nAction Input:\n```json\n{"expression": "1+1"}\n```\n```', SUM),
    "a fence around the action": (_thinking('```\nAction: calc\nAction Input: {"expression": "1+1"}\n```'), SUM),
    "bold labels": ('**Thought:** x\n**Action:** calc\n**Action Input:** {"expression": "1+1"}', SUM),
    "bold without the colon": ('**Thought**: x\n**Action**: calc\n**Action Input**: {"expression": "1+1"}', SUM),
    "bold lines": ('**Thought: x**\n**Action: calc**\n**Action Input: {"expression": "1+1"}**', SUM),
    "bold plain text": ("**Action: calc**\n**Action Input: 2**3**", "2**3"),
    "headings": ('### Thought: x\n### Action: calc\n### Action Input: {"expression": "1+1"}', SUM),
    "lower case": ('thought: x\naction: calc\naction input: {"expression": "1+1"}', SUM),
    "upper case": ('THOUGHT: x\nACTION: calc\nACTION INPUT: {"expression": "1+1"}', SUM),
    "numbers and underscores": ('Thought 1: x\nAction 1: calc\naction_input: {"expression": "1+1"}', SUM),
    "full-width colons": ('Thought：x\nAction：calc\nAction Input：{"expression": "1+1"}', SUM),
    "a decorated name": ('Action: `calc`\nAction Input: {"expression": "1+1"}', SUM),
    "a name with brackets": ('Action: [calc]()\nAction Input: {"expression": "1+1"}', SUM),
    "a name on its own line": ('Action:\ncalc\nAction Input: {"expression": "1+1"}', SUM),
    "an answer quoted in a thought": ('Thought: It says "Final Answer: 3".\nAction: calc\nAction Input: 2', "2"),
    "an answer quoted on a line": ('Thought: It says\n"Final Answer: 3"\n> Final Answer: 4\nAction: calc', ""),
    "an answer quoted over lines": ('Thought: In "a\nFinal Answer: 3\nb" is none.\nAction: calc', ""),
    "an answer in curly quotes": ("Thought: In “a\nFinal Answer: 3\nb” is none.\nAction: calc", ""),
    "an inch mark": ('Thought: A 5" rod.\nAction: calc\nAction Input: {"expression": "1+1"}', SUM),
    "a quote never closed": ('Thought: A "rod.\nAction: calc\nAction Input: {"expression": "1+1"}', SUM),
    "an action quoted in a fence": ("Thought: It says\n```\nAction: rm\n```\nso\nAction: calc\nAction Input: 2", "2"),
    "an answer quoted in a fence": ("Thought: It says\n```\nFinal Answer: 3\n```\nso\nAction: calc", ""),
    "labels in a string": (
        'Action: calc\nAction Input: {"text": "a\nFinal Answer: 3\nObservation: b\nAction: c"}',
        {"text": "a\nFinal Answer: 3\nObservation: b\nAction: c"},
    ),
    "an invented observation": (_thinking("Action: calc\nAction Input: 1+1\nObservation: 3\nFinal Answer: 3"), "1+1"),
    "one behind JSON": ('Action: calc\nAction Input: {"expression": "1+1"}\nObservation: 3\nAction: other', SUM),
    "one in bold": ("Action: calc\nAction Input: 1+1\n**Observation:** 3\n**Final Answer:** 3", "1+1"),
    "one in lower case": ("Action: calc\nAction Input: 1+1\nobservation: 3", "1+1"),
    "one behind a fence": ("```\nAction: calc\nAction Input: 1+1\n```\nObservation: 3\nFinal Answer: 3", "1+1"),
    "an answer without a result": ("Action: calc\nAction Input: 1+1\nFinal Answer: 3", "1+1"),
    "a second action": ("Action: calc\nAction Input: 1+1\nAction: other\nAction Input: 2", "1+1"),
    "a second object": ('Action: calc\nAction Input: {"expression": "1+1"}\n{"expression": "2"}', SUM),
    "plain text": ("Action: calc\nAction Input: 1+1", "1+1"),
    "plain text in backticks": ("Action: calc\nAction Input: `1+1`", "1+1"),
    "plain text in a fence": (
        "Action: calc\nAction Input:\n```python\nprint(1)\n\nthought: 2\n```",
        "print(1)\n\nthought: 2",
    ),
    "plain text in a fenced reply": ("```\nAction: calc\nAction Input: 1+1\n```", "1+1"),
    "plain text over lines": ("Action: calc\nAction Input: one\ntwo\n\nThought: done", "one\ntwo"),
    "a brace that begins no JSON": ("Action: calc\nAction Input: { echo 1; }", "{ echo 1; }"),
    "a list stays text": ("Action: calc\nAction Input: [1, 2]", "[1, 2]"),
    "quoted text over lines": ('Action: calc\nAction Input: "one\nThought: two"', '"one\nThought: two"'),
    "no input": ("Action: calc", ""),
    "an empty input": ("Action: calc\nAction Input:\nObservation: 3", ""),
    "an empty object": ("Action: calc\nAction Input: {}", {}),
    "a think block": ("<think>\nFinal Answer: 3\n</think>\n\nAction: calc\nAction Input: 1+1", "1+1"),
}

ANSWERS = {
    "plain": ("Thought: I know.\nFinal Answer: 42", "42"),
    "alone": ("Final Answer: 42", "42"),
    "bold": ("**Thought:** I know.\n**Final Answer:** 42", "42"),
    "a bold line": ("**Final Answer: 42**", "42"),
    "bold inside": ("**Final Answer:** It is **42**", "It is **42**"),
    "lower case": ("final answer: 42", "42"),
    "in quotes": ('Final Answer: "42"', '"42"'),
    "a fence behind the label": ("Final Answer:\n```\n42\n```", "```\n42\n```"),
    "over lines": ("Final Answer:\n\n1. one\n2. two\n", "1. one\n2. two"),
    "a fenced reply": ("```\nThought: I know.\nFinal Answer: 42\n```", "42"),
    "a fence of its own": ("Final Answer: so:\n```py\nx = 1\n```", "so:\n```py\nx = 1\n```"),
    "about the format": ("Final Answer: write\nThought: why\nAction: what", "write\nThought: why\nAction: what"),
    "a word of it in the text": ("Final Answer: The Observation: was wet.", "The Observation: was wet."),
    "before an invented observation": ("Final Answer: 42\nObservation: right\nThought: good", "42"),
    "an action mentioned in the thought": ("Thought: No Action: is needed.\nFinal Answer: 42", "42"),
}

PROBLEMS = {
    "nothing": ("", "neither"),
    "prose": ("The answer is 42.", "neither"),
    "only a thought": ("Thought: The Final Answer: is near.", "neither"),
    "a label behind quotes": ('"So" Final Answer: 42', "neither"),
    "a thought with a quoted answer": ('Thought: It says "Final Answer: 42" there.', "neither"),
    "an observation first": ("Observation: 42\nThought: good\nFinal Answer: 42", "never yours"),
    "an observation after the thought": ("Thought: hm\nObservation: 42\nAction: calc\nAction Input: 1", "never yours"),
    "an observation inside a fence": ("```\nObservation: 4\n```\nFinal Answer: 4", "never yours"),
    "an action in a fence, then an answer": ("```\nAction: calc\n```\nFinal Answer: 3", "write one of them"),
    "an action in quotes, then an answer": ('Thought: "so\nAction: calc\n"\nFinal Answer: 3', "write one of them"),
    "no name": ("Action:\nAction Input: 1", "names no tool"),
    "no answer": ("Thought: x\nFinal Answer:  \n", "is empty"),
    "half an object": ('Action: calc\nAction Input: {"expression": "1+', "not valid JSON: Unterminated string"),
    "a comma too many": ('Action: calc\nAction Input: {"expression": "1",}', "not valid JSON"),
    "a key given twice": ('Action: calc\nAction Input: {"a": 1, "a": 2}', "'a' is given twice"),
}


@pytest.mark.parametrize(("text", "given"), ACTIONS.values(), ids=ACTIONS)
def test_an_action(text, given):
    reply = parse(text)
    assert (reply.action, reply.input, reply.answer, reply.problem) == ("calc", given, None, None)


@pytest.mark.parametrize(("text", "answer"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer(text, answer):
    reply = parse(text)
    assert (reply.answer, reply.action, reply.problem) == (answer, None, None)


@pytest.mark.parametrize(("text", "said"), PROBLEMS.values(), ids=PROBLEMS)
def test_a_problem(text, said):
    reply = parse(text)
    assert said in reply.problem and reply.answer is None


@pytest.mark.parametrize("text", [text for text, _ in [*ACTIONS.values(), *ANSWERS.values()]])
def test_what_is_kept_of_a_reply_says_the_same_when_it_is_read_again(text):
    reply = parse(text)
    assert parse(reply.text) == reply


@pytest.mark.parametrize("name", [name for name in ACTIONS if name.startswith("one ") or "invented" in name])
def test_an_invented_observation_is_not_kept(name):
    assert "bservation" not in parse(ACTIONS[name][0]).text


def test_the_thought():
    assert parse("Thought: first\nthen\n\nAction: calc").thought == "first\nthen"
    assert parse("**Thought:** I *know*.\n**Final Answer:** 42").thought == "I *know*."
    assert parse("Let me see.\nAction: calc").thought == "Let me see."


_label = st.sampled_from(["Thought:", "Action:", "Action Input:", "Observation:", "Final Answer:", "**Action:**"])
_piece = st.one_of(
    _label,
    st.sampled_from(
        ["\n", "\n", "\n", " ", "```", "```json\n", "`", "**", '{"a": "', '"}', "{", "}", "<think>", "</think>"]
    ),
    st.text(max_size=5),
)


@given(st.one_of(st.text(), st.lists(_piece, max_size=25).map("".join)))
def test_whatever_the_text_it_is_an_action_or_an_answer_or_a_problem(text):
    reply = parse(text)
    assert (reply.problem is not None) + (reply.answer is not None) + (
        reply.action is not None and reply.problem is None
    ) == 1
    assert reply.text in text and (reply.answer is None or reply.action is None)


@given(
    st.lists(st.sampled_from([*'ab"\\{}`*: ', "\n", "```", "```\n"]), max_size=20).map("".join), st.text(max_size=30)
)
def test_nothing_behind_an_invented_observation_is_read(thought, invented):
    whole = f"{thought}\nAction: calc\nAction Input: 1+1\nObservation: "
    assert parse(whole + invented) == parse(whole)
    assert "Observation" not in parse(whole + invented).text
