"""A call against its tool's JSON schema: typed values out of text, and what is wrong in words a model can act on."""

import json
import re

from agentkit.models.call_values import whole_json


def functions(tools: list[dict] | None) -> dict[str, dict]:
    """Name to JSON schema of the parameters, of tools in OpenAI's form (or their inner `function` alone)."""
    inner = [tool.get("function", tool) for tool in tools or []]
    return {tool["name"]: tool.get("parameters") or {} for tool in inner if "name" in tool}


def coerce(text: str, name: str, key: str, tools: list[dict] | None) -> object:
    """The value of a parameter that was written as bare text, typed as the tool's schema says.

    Strings stay as they are, and so does everything without a schema and everything that does not parse.
    """
    types = _types(functions(tools).get(name, {}).get("properties", {}).get(key, {}))
    word = text.strip()
    if "string" in types:
        return None if word == "null" and "null" in types else text
    if "boolean" in types and word.lower() in ("true", "false"):
        return word.lower() == "true"
    try:
        return whole_json(word) if types else text
    except ValueError:
        return text


def schema_errors(call: dict, tools: list[dict]) -> list[str]:
    """What is wrong with a call's name and args, one line a problem; an empty list means valid."""
    from jsonschema import exceptions, validators
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    known = functions(tools)
    name, args = call["name"], call["args"]
    if name not in known:
        return [f"tool {name!r} is unknown; known are {', '.join(known) or 'none'}"]
    # An own, empty registry: by default a $ref in a schema (an MCP server's, say) would be fetched from the network.
    validator = validators.validator_for(known[name], default=validators.Draft202012Validator)
    try:
        validator.check_schema(known[name])
        errors = list(validator(known[name], registry=Registry()).iter_errors(args))
    except (exceptions.SchemaError, Unresolvable, RecursionError) as error:
        return [f"{name}: the tool's own schema is broken: {str(error).splitlines()[0]}"]
    return list(dict.fromkeys(line for error in errors for line in _lines(name, error)))


def _types(schema: object) -> list[str]:
    if not isinstance(schema, dict):
        return []
    named = schema.get("type", [])
    types = [named] if isinstance(named, str) else list(named)
    for option in [*schema.get("anyOf", []), *schema.get("oneOf", [])]:
        types += _types(option)
    # An enum or const without a type still says what it holds.
    values = schema.get("enum", []) + ([schema["const"]] if "const" in schema else [])
    return types or ["string" if isinstance(v, str) else "other" for v in values]


def _lines(name: str, error) -> list[str]:
    place = ".".join([name, *map(str, error.absolute_path)])
    if error.validator == "required":
        missing = [key for key in error.validator_value if key not in error.instance]
        fields = error.schema.get("properties", {})
        return [f"{place}.{key} is missing; expected {_expected(fields.get(key, {}))}" for key in missing]
    if error.validator == "additionalProperties" and error.validator_value is False:
        fields, patterns = error.schema.get("properties", {}), error.schema.get("patternProperties", {})
        return [f"{place}.{key} is {_quoted(value)}; expected no such field, known are {', '.join(fields) or 'none'}"
                for key, value in error.instance.items()
                if key not in fields and not any(re.search(pattern, key) for pattern in patterns)]
    expected = _expected({error.validator: error.validator_value})
    return [f"{place} is {_quoted(error.instance)}; expected {expected}"]


def _expected(schema: object) -> str:
    if not isinstance(schema, dict) or not schema:
        return "a value"
    words = [" or ".join(_types({"type": schema["type"]}))] if "type" in schema else []
    if "enum" in schema:
        words = [f"one of {', '.join(map(_quoted, schema['enum']))}"]
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            words.append(" or ".join(_expected(option) for option in schema[choice]))
    words += [f"{key} {_quoted(schema[key])}" for key in schema if key in _LIMITS]
    return " with ".join(words) or "; ".join(f"{key} {_quoted(value)}" for key, value in schema.items())


_LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
           "pattern", "minItems", "maxItems", "uniqueItems", "const", "format")


def _quoted(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 200 else text[:200] + "..."
