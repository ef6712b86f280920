"""The parser of tool calls on the field reports of other projects; each test is named by its source."""

import json

import pytest

from agentkit.models.tool_calls import CUT, ToolCallParser, form_of, schema_errors
from tests.turns import TOOLS, calls, check, hermes, in_block, tool, xml


def test_mlx_lm_1616_xml_without_wrapper():
    check("<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>", expect=[("bash", {"command": "ls"})])
    check(
        "Let me look.\n" + xml("bash", ("command", "ls")) + "\n</tool_call>",
        content="Let me look.",
        expect=[("bash", {"command": "ls"})],
    )
    check(xml("a") + "\n" + xml("b", ("x", "1")), expect=[("a", {}), ("b", {"x": "1"})])


@pytest.mark.parametrize(
    "value", ["2025-06-15T10:30:00Z", "1 apple a day", "007", "3.14.15", "-", "0x10", "[draft", "{x"]
)
@pytest.mark.parametrize(
    "tools", [None, [tool("schedule", deadline={"type": "string"})], [tool("schedule", deadline={"type": "integer"})]]
)
def test_mlx_lm_1236_text_that_looks_like_a_number(value, tools):
    check(in_block(xml("schedule", ("deadline", value))), expect=[("schedule", {"deadline": value})], tools=tools)


def test_mlx_lm_1022_object_that_is_no_json():
    text = (
        "<tool_call>\n<function=search>\n<parameter=filters>\n{category: books,}\n"
        "</parameter>\n</function>\n</tool_call>"
    )
    parsed = check(text, expect=[("search", {"filters": "{category: books,}"})], tools=TOOLS)
    assert schema_errors(parsed.tool_calls[0], TOOLS) == ['search.filters is "{category: books,}"; expected object']


def test_vmlx_192_missing_parameter_close():
    text = "<tool_call>\n<function=bash>\n<parameter=command>\necho hi\n</function>\n</tool_call>"
    check(text, expect=[("bash", {"command": "echo hi"})])
    check(text + "\nThen I wait.", expect=[("bash", {"command": "echo hi"})], content="Then I wait.")
    check("<function=a><parameter=x>1<parameter=y>2</parameter></function>", expect=[("a", {"x": "1", "y": "2"})])
    check(
        "<function=a><parameter=x>1</function><function=b><parameter=y>2</parameter></function>",
        expect=[("a", {"x": "1"}), ("b", {"y": "2"})],
    )
    check("<tool_call><function=bash><parameter=command>ls</tool_call>", expect=[("bash", {"command": "ls"})])
    check("<tool_call><function=bash>echo hi</function></tool_call>", errors=["text outside of a parameter: 'echo hi'"])
    check("<function=bash><parameter=command>echo hi", errors=["unterminated parameter command"])


def test_lmstudio_1592_mention_inside_a_thought():
    check(
        "<think>Some models use <tool_call> tags, others JSON.</think>The answer is 4.",
        reasoning="Some models use <tool_call> tags, others JSON.",
        content="The answer is 4.",
    )
    shown = hermes("ls")
    check(f"<think>I could write {shown} here.</think>No.", reasoning=f"I could write {shown} here.", content="No.")
    check(f"<think>{shown}</think>No.", reasoning=shown, content="No.")
    check(f"<think>Not {shown}, so {shown}", reasoning=f"Not {shown}, so", expect=[("ls", {})])
    check(
        "<think>Kimi writes <|tool_calls_section_begin|>x</think>ok",
        reasoning="Kimi writes <|tool_calls_section_begin|>x",
        content="ok",
    )


def test_llama_cpp_21118_call_without_closing_the_thought():
    check(
        "<think>I need the listing.<tool_call>\n<function=workspace_ls>\n</function>\n</tool_call>",
        reasoning="I need the listing.",
        expect=[("workspace_ls", {})],
    )
    text = "I need it. " + hermes("ls") + "\n" + hermes("pwd")
    check(text, reasoning="I need it.", expect=[("ls", {}), ("pwd", {})], thinking=True)
    check(text + " Or not.", reasoning=text + " Or not.", thinking=True)
    check(text.removesuffix("</tool_call>"), reasoning="I need it.", expect=[("ls", {}), ("pwd", {})], thinking=True)
    check("Hm. <tool_call>{broken}</tool_call>", reasoning="Hm. <tool_call>{broken}</tool_call>", thinking=True)
    check(
        '<tool_call>{"a <tool_call>{"name":"ls"}</tool_call>',
        reasoning='<tool_call>{"a',
        expect=[("ls", {})],
        thinking=True,
    )


@pytest.mark.parametrize(
    "text",
    [
        '<minimax:tool_call><invoke name="ls"></invoke>',
        '<minimax:tool_call>\n<invoke name="ls"></invoke>\n</minimax:tool_call>',
        '<|python_tag|>{"name": "ls", "parameters": {}}',
        '<|python_tag|>print("hi")',
        "<|tool_call_start|>[ls()]<|tool_call_end|>",
        "<|tool_calls_section_begin|>",
        "<｜tool▁calls▁begin｜>function<｜tool▁sep｜>ls",
        '<function_calls><invoke name="ls">',
    ],
)
@pytest.mark.parametrize("reason", ["stop", "length"])
def test_lmstudio_2224_unknown_family_marker(text, reason):
    marker = text[: text.index(">") + 1]
    expected = (
        "nothing follows" if text == marker and reason == "stop" else f"looks like a call, no parser for {marker}"
    )
    parsed = check("One moment.\n" + text, content="One moment.", errors=[expected], finish_reason=reason)
    assert parsed.invalid_tool_calls[0]["args"] == text
    assert "write <tool_call>" in parsed.invalid_tool_calls[0]["error"]


def test_unknown_marker_that_is_closed_or_only_mentioned():
    text = "<minimax:tool_call>\n<invoke name='ls'></invoke></minimax:tool_call>"
    check(text + "Wait.", content="Wait.", errors=["no parser for <minimax:tool_call>"])
    check("Llama's <|python_tag|> is a token.", content="Llama's <|python_tag|> is a token.")
    check(
        "<tool_call>ls\n<arg_key>path</arg_key><arg_value>.</arg_value></tool_call>", errors=["no parser for <arg_key>"]
    )


def test_omlx_581_gemma_with_ordinary_quotes():
    check('<|tool_call>call:bash{command:"ls"}<tool_call|>', expect=[("bash", {"command": "ls"})])
    check(
        '<|tool_call>call:bash{command:<|"|>echo "a, b}" <tool_call|><|"|>,timeout:5}<tool_call|>',
        expect=[("bash", {"command": 'echo "a, b}" <tool_call|>', "timeout": 5})],
    )
    check(
        '<|tool_call>call:f{a:{b:[1,true,<|"|>x<|"|>],c:null},d:plain text}<tool_call|>'
        "<|tool_call>call:g{}<tool_call|>",
        expect=[("f", {"a": {"b": [1, True, "x"], "c": None}, "d": "plain text"}), ("g", {})],
        form="gemma",
    )
    check(
        "<start_function_call>call:f{a:<escape>v, {w}<escape>,n:2}<end_function_call>",
        expect=[("f", {"a": "v, {w}", "n": 2})],
    )
    check("<|tool_call>call:f{a:1 b:2}call:g{", errors=["expected"])
    check('<|tool_call>call:f{a:<|"|>x', errors=['the call was not finished; no closing <|"|>'])
    check("<|channel>thought\nHm.<channel|><|tool_call>call:f{}<tool_call|>", reasoning="Hm.", expect=[("f", {})])


def test_mlx_openai_server_83_hermes_by_template():
    text = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Tokyo"}}\n</tool_call>'
    template = "{{ '<tool_call>' }}{\"name\": <function-name>, \"arguments\": <args-json-object>}{{ '</tool_call>' }}"
    check(text, expect=[("get_weather", {"city": "Tokyo"})], form=form_of(template))
    for form in ("auto", "hermes", "qwen3_coder"):
        check(text, expect=[("get_weather", {"city": "Tokyo"})], form=form)


@pytest.mark.parametrize(
    ("template", "form"),
    [
        ("<tool_call>\\n<function=example>\\n<parameter=x>", "qwen3_coder"),
        ("<tool_call>\n<function=f>", "qwen3_coder"),
        ("'[TOOL_CALLS]' + call.name + '[ARGS]'", "mistral"),
        ("<|tool_call>call:{{ name }}<tool_call|>", "gemma"),
        ("<start_function_call>call:", "gemma"),
        ("<tool_call>{{ tool_call.name }}", "hermes"),
        ("<|tool_call_start|>[{{ call }}]<|tool_call_end|>", "pythonic"),
        ("[func_name1(params_name1=params_value1)]", "pythonic"),
        ("<minimax:tool_call>", "auto"),
        ("<tool_call>{{ name }}<arg_key>", "auto"),
        ("{{ messages }}", "auto"),
        ("", "auto"),
    ],
)
def test_form_of_a_template(template, form):
    assert form_of(template) == form


def test_form_of_the_bundled_template():
    from importlib.resources import files

    assert form_of((files("agentkit.models") / "bundled_template.jinja").read_text()) == "hermes"


def test_vllm_mlx_55_closing_tag_across_chunks():
    parser = ToolCallParser()
    first = parser.feed('<tool_call>{"name":"a","arguments":{}}</tool')
    second = parser.feed('_call><tool_call>{"name":"b","arguments":{}}</tool_call>')
    assert first == [] and [d.call["name"] for d in second] == ["a", "b"]
    parsed = parser.close()
    assert (calls(parsed), parsed.content) == ([("a", {}), ("b", {})], "")


def test_vllm_mlx_107_no_character_of_a_block_is_shown():
    parser, shown = ToolCallParser(), []
    for char in 'Hi <b>you</b>. <tool_call>{"name":"ls","arguments":{}}</tool_call>':
        shown += [d.text for d in parser.feed(char) if d.kind == "content"]
    assert "".join(shown) == parser.close().content == "Hi <b>you</b>."
    assert calls(parser.close()) == [("ls", {})]


def test_exo_1757_unparsable_call_names_the_right_format():
    parsed = check(
        '<|tool_calls_section_begin|><|tool_call_begin|>functions.shell!1 {"cmd":"ls"}',
        errors=["looks like a call, no parser for <|tool_calls_section_begin|>"],
    )
    assert 'write <tool_call>{"name"' in parsed.invalid_tool_calls[0]["error"]


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name":"write_file","arguments":{"path":"a.py","content":"def f(',
        '<tool_call>{"name":"ls","arguments":{}}',
        '<tool_call>{"name":"f","arguments":{"x":"</tool_call> and',
        "<tool_call>\n",
        "<tool_call><func",
        "<function=bash",
        "<function=bash><parameter=command>rm -rf /tmp/a",
        "<tool_call>" + xml("bash", ("command", "ls")),
        "<function=w><parameter=text>about </function> and then",
        '[TOOL_CALLS][{"name":"f"',
        '<|tool_call>call:f{a:"x',
        "<start_function_call>call:f{a:1}",
    ],
)
def test_deepseek_55_cut_by_the_token_limit(text):
    parsed = check("Ok.\n" + text, content="Ok.", errors=[CUT], finish_reason="length")
    assert parsed.invalid_tool_calls[0]["args"] == text
    assert parsed.invalid_tool_calls[0]["error"] == CUT


def test_cut_behind_or_inside_a_thought():
    check(hermes("a") + hermes("b")[:-3], expect=[("a", {})], errors=[CUT], finish_reason="length")
    check("<think>hm " + hermes("a"), reasoning="hm " + hermes("a"), finish_reason="length")
    check("a < b and [x", content="a < b and [x", finish_reason="length")


@pytest.mark.parametrize("value", ['__import__("os").system("echo pwned")', "eval('1')", "().__class__"])
def test_verl_6542_nothing_is_evaluated(value, capfd):
    tools = [tool("foo", items={"type": "array"})]
    parsed = check(
        f"<function=foo><parameter=items>{value}</parameter></function>",
        expect=[("foo", {"items": value})],
        tools=tools,
    )
    assert schema_errors(parsed.tool_calls[0], tools) == [f"foo.items is {json.dumps(value)}; expected array"]
    check(f"[foo(items={value})]", errors=["no constant, list, tuple or dict"], form="pythonic")
    assert "pwned" not in capfd.readouterr().out


@pytest.mark.parametrize("opening", ["", "The user\n\nasks", "Hi <tool_call> tag. "])
def test_local_ai_4761_stray_closing_tag(opening):
    text = opening + "Okay, the user asks why the sky is blue...</think>Rayleigh scattering."
    reasoning = opening + "Okay, the user asks why the sky is blue..."
    check(text, reasoning=reasoning, content="Rayleigh scattering.")
    check(text, reasoning=reasoning, content="Rayleigh scattering.", thinking=True)
    parser = ToolCallParser()
    told = [d for char in text for d in parser.feed(char)]
    assert [d.text for d in told if d.kind == "reclassify"] == [reasoning]


def test_thought_tags_that_are_prose_and_thoughts_that_go_on():
    check("Use <think> and </think> tags.", content="Use <think> and </think> tags.")
    check("A <think> and a </think>. Hm.</think>Yes.", reasoning="A <think> and a </think>. Hm.", content="Yes.")
    check("Close it with `</think>`.", content="Close it with `</think>`.")
    check("See:\n```\n<think>\nx\n</think>\n```", content="See:\n```\n<think>\nx\n</think>\n```")
    check("<think>a\n</think>Well, b.\n</think>\n\nDone.", reasoning="a\nWell, b.", content="Done.")
    check("\n<think>\n<think>a</think>\n\nb\n", reasoning="a", content="b")
    check("<think>\n<think>\na</think>b", reasoning="a", content="b", thinking=True)
    check("</think>b", content="b")
    check("<think>never closed", reasoning="never closed")
