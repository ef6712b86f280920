"""The parser of tool calls: field reports of other projects, and the rules behind them."""

import json

import pytest

from agentkit.models.errors import BadField
from agentkit.models.tool_calls import CUT, ToolCallParser, form_of, parse, schema_errors


def tool(name, required=(), **properties):
    return {"type": "function", "function": {"name": name, "parameters": {
        "type": "object", "properties": properties, "required": list(required)}}}


TOOLS = [
    tool("bash", ["command"], command={"type": "string"}, timeout={"type": "integer"}, quiet={"type": "boolean"}),
    tool("search", filters={"type": "object"}, tags={"type": "array", "items": {"type": "string"}},
         limit={"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]}, weight={"type": "number"}),
    tool("get_weather", ["city"], city={"type": "string"}, unit={"enum": ["C", "F"]}),
]


def calls(parsed):
    return [(call["name"], call["args"]) for call in parsed.tool_calls]


def check(text, *, reasoning="", content="", expect=(), errors=(), **options):
    """Parse and compare everything; `errors` are parts of the invalid calls' reasons, in order."""
    parsed = parse(text, **options)
    assert (parsed.reasoning, parsed.content, calls(parsed)) == (reasoning, content, list(expect))
    assert len(parsed.invalid_tool_calls) == len(errors), parsed.invalid_tool_calls
    for call, part in zip(parsed.invalid_tool_calls, errors):
        assert part in call["error"]
        assert call["type"] == "invalid_tool_call" and call["args"].strip()
    return parsed


def in_block(body):
    return f"<tool_call>\n{body}\n</tool_call>"


def xml(name, *parameters):
    return f"<function={name}>\n" + "".join(f"<parameter={k}>\n{v}\n</parameter>\n" for k, v in parameters) + "</function>"


def hermes(name, **args):
    return in_block(json.dumps({"name": name, "arguments": args}, ensure_ascii=False))


# --- field reports, named by their source ---------------------------------------------------------------------------


def test_mlx_lm_1616_xml_without_wrapper():
    check("<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>", expect=[("bash", {"command": "ls"})])
    check("Let me look.\n" + xml("bash", ("command", "ls")) + "\n</tool_call>", content="Let me look.",
          expect=[("bash", {"command": "ls"})])
    check(xml("a") + "\n" + xml("b", ("x", "1")), expect=[("a", {}), ("b", {"x": "1"})])


@pytest.mark.parametrize("value", ["2025-06-15T10:30:00Z", "1 apple a day", "007", "3.14.15", "-", "0x10", "[draft", "{x"])
@pytest.mark.parametrize("tools", [None, [tool("schedule", deadline={"type": "string"})],
                                   [tool("schedule", deadline={"type": "integer"})]])
def test_mlx_lm_1236_text_that_looks_like_a_number(value, tools):
    check(in_block(xml("schedule", ("deadline", value))), expect=[("schedule", {"deadline": value})], tools=tools)


def test_mlx_lm_1022_object_that_is_no_json():
    text = "<tool_call>\n<function=search>\n<parameter=filters>\n{category: books,}\n</parameter>\n</function>\n</tool_call>"
    parsed = check(text, expect=[("search", {"filters": "{category: books,}"})], tools=TOOLS)
    assert schema_errors(parsed.tool_calls[0], TOOLS) == ['search.filters is "{category: books,}"; expected object']


def test_vmlx_192_missing_parameter_close():
    text = "<tool_call>\n<function=bash>\n<parameter=command>\necho hi\n</function>\n</tool_call>"
    check(text, expect=[("bash", {"command": "echo hi"})])
    check(text + "\nThen I wait.", expect=[("bash", {"command": "echo hi"})], content="Then I wait.")
    check("<function=a><parameter=x>1<parameter=y>2</parameter></function>", expect=[("a", {"x": "1", "y": "2"})])
    check("<function=a><parameter=x>1</function><function=b><parameter=y>2</parameter></function>",
          expect=[("a", {"x": "1"}), ("b", {"y": "2"})])
    check("<tool_call><function=bash><parameter=command>ls</tool_call>", expect=[("bash", {"command": "ls"})])
    check("<tool_call><function=bash>echo hi</function></tool_call>", errors=["text outside of a parameter: 'echo hi'"])
    check("<function=bash><parameter=command>echo hi", errors=["unterminated parameter command"])


def test_lmstudio_1592_mention_inside_a_thought():
    check("<think>Some models use <tool_call> tags, others JSON.</think>The answer is 4.",
          reasoning="Some models use <tool_call> tags, others JSON.", content="The answer is 4.")
    shown = hermes("ls")
    check(f"<think>I could write {shown} here.</think>No.", reasoning=f"I could write {shown} here.", content="No.")
    check(f"<think>{shown}</think>No.", reasoning=shown, content="No.")
    check(f"<think>Not {shown}, so {shown}", reasoning=f"Not {shown}, so", expect=[("ls", {})])
    check("<think>Kimi writes <|tool_calls_section_begin|>x</think>ok",
          reasoning="Kimi writes <|tool_calls_section_begin|>x", content="ok")


def test_llama_cpp_21118_call_without_closing_the_thought():
    check("<think>I need the listing.<tool_call>\n<function=workspace_ls>\n</function>\n</tool_call>",
          reasoning="I need the listing.", expect=[("workspace_ls", {})])
    text = "I need it. " + hermes("ls") + "\n" + hermes("pwd")
    check(text, reasoning="I need it.", expect=[("ls", {}), ("pwd", {})], thinking=True)
    check(text + " Or not.", reasoning=text + " Or not.", thinking=True)
    check(text.removesuffix("</tool_call>"), reasoning="I need it.", expect=[("ls", {}), ("pwd", {})], thinking=True)
    check("Hm. <tool_call>{broken}</tool_call>", reasoning="Hm. <tool_call>{broken}</tool_call>", thinking=True)
    check('<tool_call>{"a <tool_call>{"name":"ls"}</tool_call>', reasoning='<tool_call>{"a', expect=[("ls", {})], thinking=True)


@pytest.mark.parametrize("text", [
    '<minimax:tool_call><invoke name="ls"></invoke>', '<minimax:tool_call>\n<invoke name="ls"></invoke>\n</minimax:tool_call>',
    '<|python_tag|>{"name": "ls", "parameters": {}}', '<|python_tag|>print("hi")', "<|tool_call_start|>[ls()]<|tool_call_end|>",
    "<|tool_calls_section_begin|>", "<｜tool▁calls▁begin｜>function<｜tool▁sep｜>ls", '<function_calls><invoke name="ls">'])
@pytest.mark.parametrize("reason", ["stop", "length"])
def test_lmstudio_2224_unknown_family_marker(text, reason):
    marker = text[:text.index(">") + 1]
    expected = "nothing follows" if text == marker and reason == "stop" else f"looks like a call, no parser for {marker}"
    parsed = check("One moment.\n" + text, content="One moment.", errors=[expected], finish_reason=reason)
    assert parsed.invalid_tool_calls[0]["args"] == text
    assert "write <tool_call>" in parsed.invalid_tool_calls[0]["error"]


def test_unknown_marker_that_is_closed_or_only_mentioned():
    text = "<minimax:tool_call>\n<invoke name='ls'></invoke></minimax:tool_call>"
    check(text + "Wait.", content="Wait.", errors=["no parser for <minimax:tool_call>"])
    check("Llama's <|python_tag|> is a token.", content="Llama's <|python_tag|> is a token.")
    check("<tool_call>ls\n<arg_key>path</arg_key><arg_value>.</arg_value></tool_call>", errors=["no parser for <arg_key>"])


def test_omlx_581_gemma_with_ordinary_quotes():
    check('<|tool_call>call:bash{command:"ls"}<tool_call|>', expect=[("bash", {"command": "ls"})])
    check('<|tool_call>call:bash{command:<|"|>echo "a, b}" <tool_call|><|"|>,timeout:5}<tool_call|>',
          expect=[("bash", {"command": 'echo "a, b}" <tool_call|>', "timeout": 5})])
    check('<|tool_call>call:f{a:{b:[1,true,<|"|>x<|"|>],c:null},d:plain text}<tool_call|><|tool_call>call:g{}<tool_call|>',
          expect=[("f", {"a": {"b": [1, True, "x"], "c": None}, "d": "plain text"}), ("g", {})], form="gemma")
    check("<start_function_call>call:f{a:<escape>v, {w}<escape>,n:2}<end_function_call>", expect=[("f", {"a": "v, {w}", "n": 2})])
    check("<|tool_call>call:f{a:1 b:2}call:g{", errors=["expected"])
    check('<|tool_call>call:f{a:<|"|>x', errors=['the call was not finished; no closing <|"|>'])
    check('<|channel>thought\nHm.<channel|><|tool_call>call:f{}<tool_call|>', reasoning="Hm.", expect=[("f", {})])


def test_mlx_openai_server_83_hermes_by_template():
    text = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Tokyo"}}\n</tool_call>'
    template = "{{ '<tool_call>' }}{\"name\": <function-name>, \"arguments\": <args-json-object>}{{ '</tool_call>' }}"
    check(text, expect=[("get_weather", {"city": "Tokyo"})], form=form_of(template))
    for form in ("auto", "hermes", "qwen3_coder"):
        check(text, expect=[("get_weather", {"city": "Tokyo"})], form=form)


@pytest.mark.parametrize(("template", "form"), [
    ("<tool_call>\\n<function=example>\\n<parameter=x>", "qwen3_coder"), ("<tool_call>\n<function=f>", "qwen3_coder"),
    ("'[TOOL_CALLS]' + call.name + '[ARGS]'", "mistral"), ("<|tool_call>call:{{ name }}<tool_call|>", "gemma"),
    ("<start_function_call>call:", "gemma"), ("<tool_call>{{ tool_call.name }}", "hermes"),
    ("<|tool_call_start|>[{{ call }}]<|tool_call_end|>", "pythonic"), ("[func_name1(params_name1=params_value1)]", "pythonic"),
    ("<minimax:tool_call>", "auto"), ("<tool_call>{{ name }}<arg_key>", "auto"), ("{{ messages }}", "auto"), ("", "auto")])
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
    parsed = check('<|tool_calls_section_begin|><|tool_call_begin|>functions.shell!1 {"cmd":"ls"}',
                   errors=["looks like a call, no parser for <|tool_calls_section_begin|>"])
    assert 'write <tool_call>{"name"' in parsed.invalid_tool_calls[0]["error"]


@pytest.mark.parametrize("text", [
    '<tool_call>\n{"name":"write_file","arguments":{"path":"a.py","content":"def f(', '<tool_call>{"name":"ls","arguments":{}}',
    '<tool_call>{"name":"f","arguments":{"x":"</tool_call> and', "<tool_call>\n", "<tool_call><func", "<function=bash",
    "<function=bash><parameter=command>rm -rf /tmp/a", "<tool_call>" + xml("bash", ("command", "ls")),
    "<function=w><parameter=text>about </function> and then", '[TOOL_CALLS][{"name":"f"', '<|tool_call>call:f{a:"x',
    "<start_function_call>call:f{a:1}"])
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
    parsed = check(f"<function=foo><parameter=items>{value}</parameter></function>", expect=[("foo", {"items": value})], tools=tools)
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
    check("Close it with `</think>`.", content="Close it with `</think>`.")
    check("See:\n```\n<think>\nx\n</think>\n```", content="See:\n```\n<think>\nx\n</think>\n```")
    check("<think>a\n</think>Well, b.\n</think>\n\nDone.", reasoning="a\nWell, b.", content="Done.")
    check("\n<think>\n<think>a</think>\n\nb\n", reasoning="a", content="b")
    check("<think>\n<think>\na</think>b", reasoning="a", content="b", thinking=True)
    check("</think>b", content="b")
    check("<think>never closed", reasoning="never closed")


# --- siblings: every form, well and badly written ---------------------------------------------------------------------


@pytest.mark.parametrize(("body", "expect"), [
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
    (xml("f", ("x", "if a </parameter> b:\n  </function> c")), [("f", {"x": "if a </parameter> b:\n  </function> c"})]),
    (xml("f", ("x", "see </tool_call>.")), [("f", {"x": "see </tool_call>."})]),
    (xml("f", ("x", "  indented\n\nlines\n")), [("f", {"x": "  indented\n\nlines\n"})]),
    ('<function=f>{"x": [1]}</function>', [("f", {"x": [1]})])])
def test_bodies_of_a_tool_call_block(body, expect):
    check("Yes. " + in_block(body) + " Then.", expect=expect, content="Yes.  Then.")


@pytest.mark.parametrize(("body", "error"), [
    ('{"name": "f" "x"}', "bad JSON: Expecting ',' delimiter at character 13"), ('{"name": "f", "arguments": {"x": 1}', "bad JSON"),
    ("{'name': 'f'}", "bad JSON"), ('{"name": "f", "arguments": {"x": "a}}', "Unterminated string"),
    ('{"arguments": {}}', '"name" must be'), ('{"name": "f", "x": 1}', "x: all arguments belong inside"),
    ('{"name": "f", "arguments": [1]}', "must be a JSON object"), ('{"name": "f", "arguments": "ls"}', "no JSON object"),
    ('{"name": "f", "arguments": {"x": NaN}}', "not JSON compliant"), ('{"name": "f", "arguments": {"x": 1, "x": 2}}', "given twice"),
    ('{"name": "f", "arguments": {"x": "\\ud83d"}}', "surrogates"), ("[1]", "a call is a JSON object"), ("[]", "holds no call"),
    ('{"name": "f", "arguments": {"x": ' + "[" * 3000 + "]" * 3000 + "}}", "nested too deeply"), ("call the weather tool", "bad JSON"),
    (xml("f", ("x", "1"), ("x", "2")), "parameter x is given twice"),
    ("<function=f><parameter=x>1</parameter> oh <parameter=y>2</parameter></function>", "text outside of a parameter: 'oh'")])
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
    for text in ("Put it in <tool_call> tags.", "between <tool_call> and </tool_call>", "the word <tool_call>",
                 "`<tool_call>{\"name\": \"f\"}</tool_call>` is a call", "use <function=name> or [TOOL_CALLS] there",
                 "a [list](link) and <b>", "ends with <tool_", "Use <tool_call>\nor do not."):
        check(text, content=text)
    check("I will run `ls`" + hermes("ls"), content="I will run `ls`", expect=[("ls", {})])


def test_mistral():
    check('[TOOL_CALLS][{"name": "f", "arguments": {"x": "]"}}, {"name": "g", "arguments": "{}"}]', expect=[("f", {"x": "]"}), ("g", {})])
    check('Ok. [TOOL_CALLS]f[ARGS]{"x": "}"}[TOOL_CALLS]g[CALL_ID]abc[ARGS]{} Done.', content="Ok.  Done.",
          expect=[("f", {"x": "}"}), ("g", {})], form="mistral")
    check('[TOOL_CALLS]f[ARGS]{x}[TOOL_CALLS]g[ARGS]{}', errors=["Expecting property name"], expect=[("g", {})])
    check("[THINK]hm[/THINK]yes", reasoning="hm", content="yes", form="mistral")


def test_a_form_refuses_the_others_openly():
    check(hermes("f"), errors=["no parser for <tool_call>; write [TOOL_CALLS]"], form="mistral")
    check("[TOOL_CALLS]f[ARGS]{}", errors=["no parser for [TOOL_CALLS]"], form="hermes")
    check("Write <tool_call> there", content="Write <tool_call> there", form="gemma")


@pytest.mark.parametrize("text", [
    '[get_weather(city="Lima"), bash(command="ls", timeout=-5)]', '```python\n[get_weather(city="Lima"), bash(command=\'ls\', timeout=-5)]\n```',
    '<|python_start|>[get_weather(city="Lima"), bash(command="ls", timeout=-5)]<|python_end|>',
    '\n[ get_weather( city="Lima" ),\n bash(command="ls", timeout=-5) ]\n'])
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
    check("[f(x=[1, (2, None)], y={'a': True}, z=1.5)]", expect=[("f", {"x": [1, [2, None]], "y": {"a": True}, "z": 1.5})], form="pythonic")
    for text, error in [("[f(x=a)]", "a is no constant"), ("[f(1)]", "every argument needs its name"), ("[f(**x)]", "** is not allowed"),
                        ("[f(x={**y})]", "keys of a dict"), ("[f(x=f'{y}')]", "no constant"), ("[f(x=1e999)]", "not JSON compliant"),
                        ("[f(x=b'a')]", "no constant"), ("[f(x=)]", "not a Python list"), ("[f()()]", "not a tool's name"),
                        ("[f(x=[y for y in z])]", "no constant"), ("[f(x=" + "-" * 5000 + "1)]", "")]:
        check(text, errors=[error], form="pythonic")
    check("[f(x=1), g(x=y)]", expect=[("f", {"x": 1})], errors=["y is no constant"], form="pythonic")
    check("[unknown(x=1)]", content="[unknown(x=1)]", form="pythonic", tools=TOOLS)
    check("[bash(command='l", errors=[CUT], form="pythonic", tools=TOOLS, finish_reason="length")
    check("[note(s) are", content="[note(s) are", form="pythonic", tools=TOOLS, finish_reason="length")
    check("[bash(command='ls')]", errors=[CUT], form="pythonic", finish_reason="length")


@pytest.mark.parametrize(("key", "text", "value"), [
    ("quiet", "True ", True), ("quiet", "false", False), ("quiet", "yes", "yes"), ("timeout", " 5 ", 5), ("timeout", "five", "five"),
    ("command", "5", "5"), ("command", "true", "true"), ("other", "5", "5")])
def test_xml_values_by_schema(key, text, value):
    check(xml("bash", (key, text)), expect=[("bash", {key: value})], tools=TOOLS)


@pytest.mark.parametrize(("key", "text", "value"), [
    ("filters", '{"a": [1]}', {"a": [1]}), ("tags", '["a"]', ["a"]), ("tags", "a, b", "a, b"), ("limit", "3", 3), ("limit", "null", None),
    ("weight", "0.5", 0.5), ("weight", "NaN", "NaN")])
def test_xml_values_of_other_types(key, text, value):
    check(xml("search", (key, text)), expect=[("search", {key: value})], tools=TOOLS)


# --- the schema, the interface ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "args", "problems"), [
    ("bash", {"command": "ls"}, []),
    ("ls", {}, ["tool 'ls' is unknown; known are bash, search, get_weather"]),
    ("bash", {}, ["bash.command is missing; expected string"]),
    ("bash", {"command": 5, "timeout": "x"}, ["bash.command is 5; expected string", 'bash.timeout is "x"; expected integer']),
    ("get_weather", {"city": "Lima", "unit": "K"}, ['get_weather.unit is "K"; expected one of "C", "F"']),
    ("search", {"tags": ["a", 1]}, ["search.tags.1 is 1; expected string"]),
    ("search", {"limit": 0}, ["search.limit is 0; expected integer with minimum 1 or null"])])
def test_schema_errors(name, args, problems):
    assert schema_errors({"name": name, "args": args}, TOOLS) == problems


def test_schema_errors_of_odd_schemas():
    strict = tool("f", a={"type": "integer"})
    strict["function"]["parameters"]["additionalProperties"] = False
    assert schema_errors({"name": "f", "args": {"b": 1}}, [strict]) == ["f.b is 1; expected no such field, known are a"]
    assert schema_errors({"name": "f", "args": {"b": 1}}, [{"name": "f"}]) == []
    for parameters in ({"type": "nonsense"}, {"$ref": "http://127.0.0.1:9/schema.json"}):
        broken = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
        assert "the tool's own schema is broken" in schema_errors({"name": "f", "args": {}}, broken)[0]


def test_states_and_what_is_held_back():
    parser, seen = ToolCallParser(), []
    for chunk in ["<think>", "Hm", "</thi", "nk>Ok <tool", "_call>", '{"name":', '"f"}', "</tool_call>"]:
        parser.feed(chunk)
        seen.append((parser.state, parser.pending))
    assert seen == [("reasoning", ""), ("reasoning", ""), ("reasoning", "</thi"), ("content", "<tool"), ("maybe_call", "<tool_call>"),
                    ("call", '<tool_call>{"name":'), ("call", '<tool_call>{"name":"f"}'), ("content", "")]
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
