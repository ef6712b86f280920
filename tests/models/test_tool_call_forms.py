"""Every form of a call, well and badly written, mentions in prose, and the parser's interface."""

import pytest

from agentkit.models.errors import BadField
from agentkit.models.tool_calls import CUT, ToolCallParser, parse
from tests.turns import TOOLS, check, hermes, in_block, xml


@pytest.mark.parametrize(
    ("body", "expect"),
    [
        ('{"name": "f", "parameters": {"x": 1}}', [("f", {"x": 1})]),
        ('{"name": "f", "arguments": "{\\"x\\": 1}"}', [("f", {"x": 1})]),
        ('```json\n{"name": "f", "arguments": {"x": 1}}\n```', [("f", {"x": 1})]),
        ('{"name": "f", "arguments": {"x": 1}}\n{"name": "g"}', [("f", {"x": 1}), ("g", {})]),
        ('[{"name": "f", "arguments": {"x": 1}}, {"name": "g"}]', [("f", {"x": 1}), ("g", {})]),
        ('{"name": "f", "arguments": {"x": "a </tool_call> b"}}', [("f", {"x": "a </tool_call> b"})]),
        ('{"name": "f", "arguments": {"x": "two\nlines"}}', [("f", {"x": "two\nlines"})]),
        ('{"name": "f", "arguments": {"x": "สวัสดี 🙂"}}', [("f", {"x": "สวัสดี 🙂"})]),
        ('{"name": "f", "arguments": {}}\n<tool_call>\n{"name": "g"}', [("f", {}), ("g", {})]),
        (xml("f", ("x", "1")) + "\n" + xml("g"), [("f", {"x": "1"}), ("g", {})]),
        (
            xml("f", ("x", "if a </parameter> b:\n  </function> c")),
            [("f", {"x": "if a </parameter> b:\n  </function> c"})],
        ),
        (xml("f", ("x", "see </tool_call>.")), [("f", {"x": "see </tool_call>."})]),
        (xml("f", ("x", "  indented\n\nlines\n")), [("f", {"x": "  indented\n\nlines\n"})]),
        ('<function=f>{"x": [1]}</function>', [("f", {"x": [1]})]),
    ],
)
def test_bodies_of_a_tool_call_block(body, expect):
    check("Yes. " + in_block(body) + " Then.", expect=expect, content="Yes.  Then.")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ('{"name": "f" "x"}', "bad JSON: Expecting ',' delimiter at character 13"),
        ('{"name": "f", "arguments": {"x": 1}', "bad JSON"),
        ("{'name': 'f'}", "bad JSON"),
        ('{"name": "f", "arguments": {"x": "a}}', "Unterminated string"),
        ('{"arguments": {}}', '"name" must be'),
        ('{"name": "f", "x": 1}', "x: all arguments belong inside"),
        ('{"name": "f", "arguments": [1]}', "must be a JSON object"),
        ('{"name": "f", "arguments": "ls"}', "no JSON object"),
        ('{"name": "f", "arguments": {"x": NaN}}', "not JSON compliant"),
        ('{"name": "f", "arguments": {"x": 1, "x": 2}}', "given twice"),
        ('{"name": "f", "arguments": {"x": "\\ud83d"}}', "surrogates"),
        ("[1]", "a call is a JSON object"),
        ("[]", "holds no call"),
        ('{"name": "f", "arguments": {"x": ' + "[" * 3000 + "]" * 3000 + "}}", "nested too deeply"),
        ("call the weather tool", "bad JSON"),
        (xml("f", ("x", "1"), ("x", "2")), "parameter x is given twice"),
        (
            "<function=f><parameter=x>1</parameter> oh <parameter=y>2</parameter></function>",
            "text outside of a parameter: 'oh'",
        ),
    ],
)
def test_bad_bodies_say_what_is_wrong(body, error):
    parsed = check("Yes.\n" + in_block(body) + "\nThen.", errors=[error], content="Yes.\n\nThen.")
    assert parsed.invalid_tool_calls[0]["args"] == in_block(body)
    assert "; write <tool_call>" in parsed.invalid_tool_calls[0]["error"]


def test_a_bad_call_does_not_take_the_next_one_along():
    bad = '<tool_call>{"name": "f, "arguments": {}}</tool_call>'
    check(bad + hermes("g"), errors=["bad JSON"], expect=[("g", {})])
    parsed = check(in_block('{"name": "f"}\n{"name": "g", }'), errors=["bad JSON"], expect=[("f", {})])
    assert parsed.invalid_tool_calls[0]["args"] == '{"name": "g", }' and parsed.invalid_tool_calls[0]["name"] == "g"


def test_unterminated_at_stop():
    check(hermes("f", x=1).removesuffix("</tool_call>"), expect=[("f", {"x": 1})])
    check(hermes("f", x=1)[:-4], expect=[("f", {"x": 1})])
    check(in_block(xml("f", ("x", "1")))[:-4], expect=[("f", {"x": "1"})])
    check(xml("f", ("x", "1"))[:-3], expect=[("f", {"x": "1"})])
    check('<tool_call>{"name": "f", "arguments": {"x"', errors=["the call was not finished; bad JSON"])
    check("Wait.\n<tool_call>\n", content="Wait.", errors=["nothing follows <tool_call>"])


def test_mentions_in_prose():
    for text in (
        "Put it in <tool_call> tags.",
        "between <tool_call> and </tool_call>",
        "the word <tool_call>",
        '`<tool_call>{"name": "f"}</tool_call>` is a call',
        "use <function=name> or [TOOL_CALLS] there",
        "a [list](link) and <b>",
        "ends with <tool_",
        "Use <tool_call>\nor do not.",
    ):
        check(text, content=text)
    check("I will run `ls`" + hermes("ls"), content="I will run `ls`", expect=[("ls", {})])


def test_mistral():
    check(
        '[TOOL_CALLS][{"name": "f", "arguments": {"x": "]"}}, {"name": "g", "arguments": "{}"}]',
        expect=[("f", {"x": "]"}), ("g", {})],
    )
    check(
        'Ok. [TOOL_CALLS]f[ARGS]{"x": "}"}[TOOL_CALLS]g[CALL_ID]abc[ARGS]{} Done.',
        content="Ok.  Done.",
        expect=[("f", {"x": "}"}), ("g", {})],
        form="mistral",
    )
    check("[TOOL_CALLS]f[ARGS]{x}[TOOL_CALLS]g[ARGS]{}", errors=["Expecting property name"], expect=[("g", {})])
    check("[THINK]hm[/THINK]yes", reasoning="hm", content="yes", form="mistral")


def test_a_form_refuses_the_others_openly():
    check(hermes("f"), errors=["no parser for <tool_call>; write [TOOL_CALLS]"], form="mistral")
    check("[TOOL_CALLS]f[ARGS]{}", errors=["no parser for [TOOL_CALLS]"], form="hermes")
    check("Write <tool_call> there", content="Write <tool_call> there", form="gemma")


@pytest.mark.parametrize(
    "text",
    [
        '[get_weather(city="Lima"), bash(command="ls", timeout=-5)]',
        "```python\n[get_weather(city=\"Lima\"), bash(command='ls', timeout=-5)]\n```",
        '<|python_start|>[get_weather(city="Lima"), bash(command="ls", timeout=-5)]<|python_end|>',
        '\n[ get_weather( city="Lima" ),\n bash(command="ls", timeout=-5) ]\n',
    ],
)
@pytest.mark.parametrize("tools", [None, TOOLS])
def test_pythonic(text, tools):
    expect = [("get_weather", {"city": "Lima"}), ("bash", {"command": "ls", "timeout": -5})]
    check(text, expect=expect, form="pythonic", tools=tools)
    check("<think>Hm.</think>" + text, reasoning="Hm.", expect=expect, form="pythonic", tools=tools)
    if "<|" not in text:
        check(text, content=text.strip(), form="auto")
        check("So: " + text.strip(), content="So: " + text.strip(), form="pythonic")
        check(text + " is it.", content=text.lstrip() + " is it.", form="pythonic")


def test_pythonic_values_and_refusals():
    check(
        "[f(x=[1, (2, None)], y={'a': True}, z=1.5)]",
        expect=[("f", {"x": [1, [2, None]], "y": {"a": True}, "z": 1.5})],
        form="pythonic",
    )
    for text, error in [
        ("[f(x=a)]", "a is no constant"),
        ("[f(1)]", "every argument needs its name"),
        ("[f(**x)]", "** is not allowed"),
        ("[f(x={**y})]", "keys of a dict"),
        ("[f(x=f'{y}')]", "no constant"),
        ("[f(x=1e999)]", "not JSON compliant"),
        ("[f(x=b'a')]", "no constant"),
        ("[f(x=)]", "not a Python list"),
        ("[f()()]", "not a tool's name"),
        ("[f(x=[y for y in z])]", "no constant"),
        ("[f(x=" + "-" * 5000 + "1)]", ""),
    ]:
        check(text, errors=[error], form="pythonic")
    check("[f(x=1), g(x=y)]", expect=[("f", {"x": 1})], errors=["y is no constant"], form="pythonic")
    check("[unknown(x=1)]", content="[unknown(x=1)]", form="pythonic", tools=TOOLS)
    check("[bash(command='l", errors=[CUT], form="pythonic", tools=TOOLS, finish_reason="length")
    check("[note(s) are", content="[note(s) are", form="pythonic", tools=TOOLS, finish_reason="length")
    check("[bash(command='ls')]", errors=[CUT], form="pythonic", finish_reason="length")


def test_states_and_what_is_held_back():
    parser, seen = ToolCallParser(), []
    for chunk in ["<think>", "Hm", "</thi", "nk>Ok <tool", "_call>", '{"name":', '"f"}', "</tool_call>"]:
        parser.feed(chunk)
        seen.append((parser.state, parser.pending))
    assert seen == [
        ("reasoning", ""),
        ("reasoning", ""),
        ("reasoning", "</thi"),
        ("content", "<tool"),
        ("maybe_call", "<tool_call>"),
        ("call", '<tool_call>{"name":'),
        ("call", '<tool_call>{"name":"f"}'),
        ("content", ""),
    ]
    parser.close()
    assert parser.state == "closed"


def test_closing_deltas_and_misuse():
    parser = ToolCallParser()
    parser.feed("x <tool_")
    assert parser.close().content == "x <tool_" and [d.text for d in parser.closing_deltas] == [" <tool_"]
    with pytest.raises(RuntimeError, match="closed"):
        parser.feed("y")
    with pytest.raises(BadField, match="form is 'xml'; allowed are auto"):
        ToolCallParser("xml")
    with pytest.raises(BadField, match="finish_reason is 'end'"):
        ToolCallParser().close("end")


def test_ids_differ_and_suit_mistral():
    ids = [call["id"] for call in parse(hermes("f") * 20).tool_calls]
    assert len(set(ids)) == 20 and all(len(i) == 9 and i.isalnum() for i in ids)
