"""Turns of a model as text, and what a parser must make of them."""

import json

from agentkit.models.tool_calls import parse


def tool(name, required=(), **properties):
    return {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {"type": "object", "properties": properties, "required": list(required)},
        },
    }


TOOLS = [
    tool("bash", ["command"], command={"type": "string"}, timeout={"type": "integer"}, quiet={"type": "boolean"}),
    tool(
        "search",
        filters={"type": "object"},
        tags={"type": "array", "items": {"type": "string"}},
        limit={"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
        weight={"type": "number"},
    ),
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
    return (
        f"<function={name}>\n" + "".join(f"<parameter={k}>\n{v}\n</parameter>\n" for k, v in parameters) + "</function>"
    )


def hermes(name, **args):
    return in_block(json.dumps({"name": name, "arguments": args}, ensure_ascii=False))
