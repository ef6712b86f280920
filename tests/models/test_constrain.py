"""Grammars against real tokenizers: what they let through, token by token, and what they do not."""

import pytest

from agentkit.models import bundled
from agentkit.models.constrain import ToolChoice, grammar_for, own_tags, strict
from agentkit.models.errors import AgentkitError
from agentkit.models.owner import owner
from tests import tiny

AUTO = ToolChoice()
F = {"type": "function", "function": {"name": "f", "parameters": {
    "type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "string"}}, "required": ["x"]}}}
G = {"name": "g", "parameters": {"type": "object", "properties": {}}}


@pytest.fixture(scope="module", params=["thinks", "own tags", "tags of several tokens", "bundled"])
def engine(request, tmp_path_factory):
    """Engines whose tokenizers treat the tags of calls differently."""
    marks = {"thinks": tiny.MARKS, "own tags": tiny.MARKS[2:], "tags of several tokens": ()}

    def load():
        from agentkit.models.engine import Engine

        if request.param == "bundled":
            return Engine(bundled.bundled_folder())
        return Engine(tiny.make(tmp_path_factory.mktemp("m"), tiny.QWEN3, marks=marks[request.param]))

    made = owner().call(load)
    yield made
    owner().call(made.release)


@pytest.fixture
def accepts(engine):
    """accepts(text, choice, tools) -> whether a model could write this text and end there."""

    def look(text, choice=AUTO, tools=(F, G), thinking=False):
        tokens = engine.tokenizer.encode(text, add_special_tokens=False)
        grammar = grammar_for(list(tools), choice, thinking=thinking, tags=own_tags(engine.tokenizer))

        def walk():
            matcher = engine.matcher(grammar)
            for token in tokens:
                if matcher.done or not matcher.mask()[token].item():
                    return False
                matcher.saw(token)
            return matcher.done or any(matcher.mask()[end].item() for end in engine.tokenizer.eos_token_ids)

        return owner().call(walk)

    return look


def call(name, arguments):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


CALLS = [call("f", '{"x": 5}'), call("f", '{"x": -12, "y": "สวัสดี \\"<b>\\" 😀"}'), call("g", "{}")]
FAULTY = [call("h", "{}"), call("f", "{}"), call("f", '{"x": "5"}'), call("f", '{"x": 5, "z": 1}'), call("f", '{"y": "a", "x": 5}'), call("g", '{"x": 5}'),
          call("f", '{"x":5}'), call("f", '{"x": 5'), CALLS[0].removesuffix("</tool_call>"), CALLS[0] + " Done.", CALLS[0] + CALLS[2]]


@pytest.mark.parametrize("text", CALLS)
def test_a_whole_call_may_be_written(accepts, text):
    assert accepts(text) and accepts(text, ToolChoice("required"))
    assert not accepts("\n\n" + text), "only a thought is followed by blanks"
    assert accepts("\n\n" + text, thinking=True) and accepts(text, thinking=True)


@pytest.mark.parametrize("text", FAULTY)
def test_a_faulty_call_may_not(accepts, text):
    assert not accepts(text) and not accepts(text, ToolChoice("required"))


@pytest.mark.parametrize("text", ["Hello.", "5 < 7 and <b>", " 😀", "It is {\"x\": 5}\n\n- a\n- b"])
def test_prose_may_be_written_where_the_choice_is_free(accepts, text):
    assert accepts(text)
    assert not accepts(text, ToolChoice("required"))
    assert not accepts(text, ToolChoice("named", "f"))


def test_a_call_may_not_begin_within_prose(accepts):
    assert not accepts("Let me see. " + CALLS[0])
    assert not accepts("Use <tool_call> for that.")


def test_a_named_choice_leaves_the_other_tools_out(accepts):
    assert accepts(CALLS[0], ToolChoice("named", "f")) and not accepts(CALLS[0], ToolChoice("named", "g"))


def test_a_tool_may_have_an_odd_name_and_no_parameters_at_all(accepts):
    for name in ("ns.do-it", "Größe", 'say "hi"'):
        text = '<tool_call>\n{"name": ' + (f'"{name}"' if '"' not in name else '"say \\"hi\\""') + ', "arguments": {}}\n</tool_call>'
        assert accepts(text, ToolChoice("required"), tools=[{"name": name}])


FREE = {"type": "object", "properties": {}, "additionalProperties": {"type": "integer"}}


@pytest.mark.parametrize(("parameters", "good", "bad"), [
    (FREE, '{"a": 1, "b": 2}', '{"a": "x"}'),
    ({"type": "object", "properties": {"o": {"type": "object"}}, "required": ["o"]}, '{"o": {"any": [1]}}', '{"o": 5}'),
    ({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "object", "properties": {"n": {"type": "null"}}, "required": ["n"]}}, "required": ["a"]},
     '{"a": {"n": null}}', '{"a": {}}'),
    ({"type": "object", "properties": {"a": {"oneOf": [{"type": "boolean"}, {"const": "b"}]}}}, '{"a": "b"}', '{"a": "c"}'),
    ({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}, "uniqueItems": True}}}, '{"a": ["x", "y"]}', '{"a": [5]}'),
    ({"type": "object", "properties": {"a": {"type": "integer", "title": "A", "examples": [1], "x-note": 2}, "title": {"type": "string"}}, "required": ["title"]}, '{"title": "t"}', '{"a": 5}'),
    ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]}, '{"a": "x", "b": [1]}', '{"a": "x"}'),
    ({"type": "object", "properties": {"a": {"type": "string", "format": "date"}}, "$schema": "http://json-schema.org/draft-07/schema#"}, '{"a": "no date"}', '{"a": 1}'),
    ({"type": "object", "properties": {"a": {"not": {"type": "string"}}}}, '{"a": 5}', '{"b": 5}')])
def test_schemas_that_people_write(accepts, parameters, good, bad):
    tools = [{"name": "f", "parameters": parameters}]
    assert accepts(call("f", good), tools=tools)
    assert not accepts(call("f", bad), tools=tools)


def test_the_tags_are_known_as_own_tokens_where_they_are(engine):
    single = len(engine.tokenizer.encode("<tool_call>", add_special_tokens=False)) == 1
    assert own_tags(engine.tokenizer) == single


def test_what_only_one_continuation_allows_is_forced(engine):
    grammar = grammar_for([F], ToolChoice("required"), tags=own_tags(engine.tokenizer))

    def opening():
        matcher = engine.matcher(grammar)
        return engine.tokenizer.decode(matcher.forced()), matcher.forced()

    text, again = owner().call(opening)
    assert text.startswith('<tool_call>\n{"name": "f", "arguments": ') and again == []


def test_a_schema_that_nothing_satisfies_is_refused_in_words(engine):
    tools = [{"name": "f", "parameters": {"type": "object", "properties": {"x": {"enum": []}}, "required": ["x"]}}]
    with pytest.raises(AgentkitError, match="constrained decoding: .*[Uu]nsatisfiable"):
        owner().call(engine.matcher, grammar_for(tools))


def test_a_choice_of_an_unbound_tool_is_refused():
    with pytest.raises(AgentkitError, match="tool_choice names 'h'; bound are f, g"):
        grammar_for([F, G], ToolChoice("named", "h"))


def test_strict_leaves_the_given_schema_alone():
    given = {"type": "object", "title": "T", "properties": {"title": {"type": "string", "title": "x"}}}
    copy = {"type": "object", "title": "T", "properties": {"title": {"type": "string", "title": "x"}}}
    assert strict(given) == {"type": "object", "properties": {"title": {"type": "string"}}, "additionalProperties": False}
    assert given == copy
