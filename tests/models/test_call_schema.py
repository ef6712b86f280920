"""Values by schema, and what a schema says against a call."""

import pytest

from agentkit.models.tool_calls import schema_errors
from tests.turns import TOOLS, check, tool, xml


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("quiet", "True ", True),
        ("quiet", "false", False),
        ("quiet", "yes", "yes"),
        ("timeout", " 5 ", 5),
        ("timeout", "five", "five"),
        ("command", "5", "5"),
        ("command", "true", "true"),
        ("other", "5", "5"),
    ],
)
def test_xml_values_by_schema(key, text, value):
    check(xml("bash", (key, text)), expect=[("bash", {key: value})], tools=TOOLS)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("filters", '{"a": [1]}', {"a": [1]}),
        ("tags", '["a"]', ["a"]),
        ("tags", "a, b", "a, b"),
        ("limit", "3", 3),
        ("limit", "null", None),
        ("weight", "0.5", 0.5),
        ("weight", "NaN", "NaN"),
    ],
)
def test_xml_values_of_other_types(key, text, value):
    check(xml("search", (key, text)), expect=[("search", {key: value})], tools=TOOLS)


@pytest.mark.parametrize(
    ("name", "args", "problems"),
    [
        ("bash", {"command": "ls"}, []),
        ("ls", {}, ["tool 'ls' is unknown; known are bash, search, get_weather"]),
        ("bash", {}, ["bash.command is missing; expected string"]),
        (
            "bash",
            {"command": 5, "timeout": "x"},
            ["bash.command is 5; expected string", 'bash.timeout is "x"; expected integer'],
        ),
        ("get_weather", {"city": "Lima", "unit": "K"}, ['get_weather.unit is "K"; expected one of "C", "F"']),
        ("search", {"tags": ["a", 1]}, ["search.tags.1 is 1; expected string"]),
        ("search", {"limit": 0}, ["search.limit is 0; expected integer with minimum 1 or null"]),
    ],
)
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
