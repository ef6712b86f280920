"""Does a function call fit one of BFCL's possible answers? The benchmark's AST match for Python functions.

Written anew from the rules of BFCL v4 (Apache 2.0, github.com/ShishirPatil/gorilla), which this keeps to the letter so
that percentages compare with published ones, oddities included:

- a possible answer gives every parameter a list of right values; "" in that list means the parameter may be left out;
- strings compare without case, blanks and `,./-_*^`, with ' and " alike; list items and dict values likewise, but not
  what is nested deeper;
- an int stands for a float as a parameter itself, not inside a list, unless the answer's list holds ints as well;
- a value whose type differs from the schema's but equals that of the first right value is compared as it is.
"""

import re
from typing import Any

TYPES = {"string": str, "integer": int, "float": float, "boolean": bool, "array": list, "tuple": list, "dict": dict,
         "any": str}
_IGNORED = re.compile(r"[ ,./\-_*^]")


def tool_name(name: str) -> str:
    """A function's name as a model gets it: tool names cannot hold dots, so `math.sqrt` becomes `math_sqrt`."""
    return name.replace(".", "_")


def match_call(function: dict[str, Any], call: dict[str, Any], answer: dict[str, list[Any]]) -> str:
    """The first reason why a call is wrong, or "" when it is right.

    `function` is a BFCL function document, `call` {"name", "arguments"}, `answer` right values per parameter.
    """
    wanted = tool_name(function["name"])
    if call["name"] != wanted:
        return f"name: called {call['name']!r}, expected {wanted!r}"
    schema, given = function["parameters"], call["arguments"]
    for name in schema["required"]:
        if name not in given:
            return f"missing: required parameter {name!r}"
    for name, value in given.items():
        if name not in schema["properties"] or name not in answer:
            return f"unexpected: parameter {name!r}"
        if problem := _value_problem(value, schema["properties"][name], answer[name]):
            return f"{problem} for {name!r}: {value!r}, expected one of {answer[name]!r}"
    for name, right in answer.items():
        if name not in given and "" not in right:
            return f"missing: parameter {name!r} is left out, expected one of {right!r}"
    return ""


def standard(text: str) -> str:
    """A string as BFCL compares it."""
    return _IGNORED.sub("", text).lower().replace("'", '"')


def _value_problem(value: Any, schema: dict[str, Any], right: list[Any]) -> str:
    kind = TYPES[schema["type"]]
    inner = TYPES[schema["items"]["type"]] if kind is list else None
    if schema["type"] == "float" and type(value) is int and abs(value) < 2**1000:
        value = float(value)
    fits, literal = _type_fits(value, right, kind, inner)
    if not fits:
        return "type"
    if literal:
        return "" if value in right else "value"
    if kind is dict:
        found = any(_dict_fits(value, option) for option in right if option != "")
    elif inner is dict:
        found = any(_dicts_fit(value, option) for option in right)
    elif kind is str:
        found = standard(value) in [standard(option) for option in right if isinstance(option, str)]
    elif kind is list:
        found = _standard_items(value) in [_standard_items(o) for o in right if isinstance(o, list | str)]
    else:
        found = value in right
    return "" if found else "value"


def _type_fits(value: Any, right: list[Any], kind: type, inner: type | None) -> tuple[bool, bool]:
    """Whether the type is right, and whether the value must be compared literally (its type is not the schema's)."""
    first = next((type(option) for option in right if option != ""), None)
    if type(value) is kind:
        literal = first is not None and first is not kind
        if inner is None:
            return True, literal
        fits = any(
            not isinstance(option, list) or all(_type_fits(item, option, inner, None)[0] for item in value)
            for option in right
        )
        return fits, literal
    return type(value) is first, True


def _standard_items(items: Any) -> list[Any]:
    return [standard(item) if isinstance(item, str) else item for item in items]


def _dict_fits(value: dict[str, Any], option: dict[str, list[Any]]) -> bool:
    for key, item in value.items():
        if key not in option or _standard_items([item])[0] not in _standard_items(option[key]):
            return False
    return all(key in value or "" in right for key, right in option.items())


def _dicts_fit(values: list[dict[str, Any]], option: Any) -> bool:
    # The "" of a parameter that may be left out has length 0: an empty list fits it.
    return len(values) == len(option) and all(
        isinstance(v, dict) and o != "" and _dict_fits(v, o) for v, o in zip(values, option)
    )
