"""Streaming equals batch: however a text is cut into chunks, the deltas add up to the same result and lose nothing."""

import itertools
import json
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentkit.models.call_forms import FORMS, NO_PARSER
from agentkit.models.tool_calls import STRAY_CLOSERS, THOUGHT_CLOSERS, THOUGHT_OPENERS, Parsed, ToolCallParser, parse

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "parameters": {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}},
        },
    }
]

# "#" becomes a word of its own in each use, so that the test can look for it in the result.
CALLS = [
    '<tool_call>{"name": "f", "arguments": {"s": "#"}}</tool_call>',
    '<tool_call>\n{"name": "f", "parameters": {"s": "# </tool_call>"}}\n</tool_call>',
    '<tool_call>[{"name": "#"}, {"name": "f"}]</tool_call>',
    '<tool_call>{"name": "f", "arguments": "{\\"s\\": \\"#\\"}"}</tool_call>',
    '<tool_call>{"name": "#" "}</tool_call>',
    '<tool_call>```json\n{"name": "#"}\n```</tool_call>',
    "<tool_call>\n<function=f>\n<parameter=n>\n#\n</parameter>\n</function>\n</tool_call>",
    "<function=f><parameter=s>#</parameter></function>",
    "<function=f><parameter=s>#</function>",
    "<tool_call><function=f>#</function></tool_call>",
    "<function=#></function>",
    "<function=f><parameter=s># </parameter> </function> x</parameter></function>",
    '[TOOL_CALLS][{"name": "f", "arguments": {"s": "#"}}]',
    '[TOOL_CALLS]f[ARGS]{"s": "#"}',
    "[TOOL_CALLS]f[ARGS]{#}",
    '<|tool_call>call:f{s:<|"|>#<|"|>}<tool_call|>',
    '<|tool_call>call:f{s:"#"}<tool_call|>',
    "<|tool_call>call:f{s #}<tool_call|>",
    "<start_function_call>call:f{s:<escape>#<escape>}<end_function_call>",
    '[f(s="#")]',
    '```python\n[f(s="#"), f(n=1)]\n```',
    '<|python_start|>[f(s="#")]<|python_end|>',
    "[f(s=#)]",
    '<minimax:tool_call><invoke name="#"></invoke>',
    '<|python_tag|>{"name": "#"}',
    "<tool_call>f\n<arg_key>#</arg_key></tool_call>",
]
TAGS = [
    *THOUGHT_OPENERS,
    *THOUGHT_CLOSERS,
    *STRAY_CLOSERS,
    *NO_PARSER,
    "<tool_call>",
    "<function=",
    "<function=f>",
    "[TOOL_CALLS]",
    "<|tool_call>",
    "<start_function_call>",
    "<parameter=s>",
    "</parameter>",
    "[ARGS]",
    "call:",
]
PARTS = [
    "#",
    " # ",
    "\n#\n",
    "`#`",
    "`",
    "```\n",
    " ",
    "\n",
    "<",
    "[",
    "{",
    '"',
    "}",
    "]",
    "\\",
    "สวัสดี # ครับ",
    "🙂#",
    "é́#",
    "a < b #",
    "[#](x)",
]

fragments = st.one_of(
    st.sampled_from(CALLS),
    st.sampled_from(TAGS),
    st.sampled_from(PARTS),
    st.builds(lambda text, cut: text[: cut % (len(text) + 1)], st.sampled_from(CALLS + TAGS), st.integers(0, 200)),
    st.text("<>[]{}|/=:\"`'\\ \nabc#ไ🙂", max_size=8),
)


@st.composite
def texts(draw):
    """A text and the words of its own that it holds."""
    numbers = itertools.count(1)
    text = re.sub("#", lambda _: f"w{next(numbers)}q", "".join(draw(st.lists(fragments, max_size=7))))
    return text, re.findall(r"w\d+q", text)


options = st.fixed_dictionaries(
    {
        "form": st.sampled_from(["auto", "auto", *FORMS]),
        "thinking": st.booleans(),
        "tools": st.sampled_from([None, TOOLS]),
    }
)
reasons = st.sampled_from(["stop", "length"])


def stream(chunks, finish_reason, **opts):
    """(result, deltas) of a text fed in chunks, with ids that count."""
    ids = itertools.count()
    parser = ToolCallParser(new_id=lambda: f"c{next(ids)}", **opts)
    deltas = [delta for chunk in chunks for delta in parser.feed(chunk)]
    parsed = parser.close(finish_reason)
    assert parser.pending == ""
    return parsed, deltas + parser.closing_deltas


def total(deltas):
    parsed = Parsed()
    for delta in deltas:
        parsed.add(delta)
    return parsed


def pieces(text, cuts):
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[a:b] for a, b in itertools.pairwise(places)]


@settings(max_examples=600, deadline=None)
@given(texts(), st.lists(st.integers(0, 2000), max_size=12), reasons, options)
def test_any_chunking_gives_the_same(drawn, cuts, reason, opts):
    text, _ = drawn
    batch, at_once = stream([text], reason, **opts)
    assert total(at_once) == batch
    for chunks in (pieces(text, cuts), list(text)):
        parsed, deltas = stream(chunks, reason, **opts)
        assert parsed == batch
        assert total(deltas) == batch


@settings(max_examples=600, deadline=None)
@given(texts(), reasons, options)
@example(('<tool_call>{"name": "f", "arguments": {"s": "w1q', ["w1q"]), "length", {})
@example(('<tool_call>{"name": "w1q"}</tool_call><', ["w1q"]), "stop", {"thinking": True})
@example(("<think>w1q</think>w2q</think>w3q", ["w1q", "w2q", "w3q"]), "stop", {})
def test_no_character_is_lost(drawn, reason, opts):
    text, words = drawn
    parsed, deltas = stream(text, reason, **opts)
    told = "".join(delta.text for delta in deltas if delta.kind != "reclassify")
    assert only_layout_is_left_out(text, told), (text, told)
    everything = json.dumps(
        [parsed.reasoning, parsed.content, parsed.tool_calls, parsed.invalid_tool_calls], ensure_ascii=False
    )
    assert [word for word in words if word not in everything] == []


def only_layout_is_left_out(text, told):
    """Whether `told` is `text`, in order, without blank space and some of the tags that stand for no text."""
    dropped = (*THOUGHT_OPENERS, *THOUGHT_CLOSERS, *STRAY_CLOSERS)
    text, told = re.sub(r"\s", "", text), re.sub(r"\s", "", told)
    places = {0}

    def with_skips(reached):
        todo = list(reached)
        while todo:
            place = todo.pop()
            for tag in dropped:
                if text.startswith(tag, place) and place + len(tag) not in reached:
                    reached.add(place + len(tag))
                    todo.append(place + len(tag))
        return reached

    for char in told:
        places = {place + 1 for place in with_skips(places) if text[place : place + 1] == char}
    return len(text) in with_skips(places)


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(exclude_characters="<[`", exclude_categories=["Cs"])))
def test_plain_text_passes_untouched(text):
    parsed = parse(text)
    assert parsed == Parsed(content=text.strip(" \t\r\n"))


@settings(max_examples=300, deadline=None)
@given(st.text('<>/=_abcไ🙂 \n"\\{}' + "toolcparmefuni", max_size=60), st.sampled_from(["hermes", "qwen3_coder"]))
def test_any_value_comes_back_from_a_call(value, form):
    if form == "hermes":
        text = f"<tool_call>{json.dumps({'name': 'f', 'arguments': {'s': value}}, ensure_ascii=False)}</tool_call>"
    else:
        text = f"<tool_call>\n<function=f>\n<parameter=s>\n{value}\n</parameter>\n</function>\n</tool_call>"
    for chunks in ([text], list(text)):
        parsed, _ = stream(chunks, "stop", tools=TOOLS)
        assert [call["args"] for call in parsed.tool_calls] == [{"s": value}]
        assert (parsed.content, parsed.invalid_tool_calls) == ("", [])


@pytest.mark.parametrize("text", ["ภาษาไทย", "Příliš žluťoučký kůň", "👩‍👩‍👧‍👦 and 🇹🇭", "<ภาษา> [ไทย]"])
def test_every_character_is_told_at_once_where_it_can_be(text):
    parser = ToolCallParser()
    told = [[delta.text for delta in parser.feed(char)] for char in text]
    assert "".join(itertools.chain(*told)) == parser.close().content == text
    assert all(len(texts) == 1 for char, texts in zip(text, told) if char not in "<[ ")


@pytest.mark.parametrize(
    "repeated",
    [
        "<tool_call>{",
        "<tool_call>\n",
        "<function=f><parameter=s>",
        "[TOOL_CALLS]f[ARGS]{",
        "<think>",
        "<",
        "`<tool_call>",
        '<tool_call>{"name": "f"}</tool_call> ',
        '<|tool_call>call:f{s:<|"|>',
    ],
)
@pytest.mark.parametrize("thinking", [True, False])
def test_a_model_that_repeats_itself_is_parsed_to_the_end(repeated, thinking):
    for reason in ("stop", "length"):
        parsed, deltas = stream(pieces(repeated * 300, range(0, 10000, 7)), reason, thinking=thinking)
        assert total(deltas) == parsed
