"""Calls written as JSON objects with `name` and `arguments` (or `parameters`), and the type every reader returns."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from agentkit.models.call_values import StillOpen, read_json, whole_json

_BETWEEN = re.compile(r"(?:[\s,;]|</?tool_call>)*")  # between objects; models open the next block and forget to close


@dataclass(frozen=True)
class Read:
    """One call as read from a block: `args` where it is well-formed, else `error`; `raw` is its text."""

    raw: str
    name: str | None = None
    args: dict | None = None
    error: str = ""


def json_calls(text: str) -> list[Read]:
    """The calls in a text of JSON objects or lists of them, perhaps in a code fence; broken ones with their error."""
    text, reads, done = _unfenced(text), [], 0
    try:
        for value, raw, end in _objects(text):
            done = end
            if isinstance(value, list):
                reads += [_call(item, json.dumps(item, ensure_ascii=False)) for item in value]
            else:
                reads.append(_call(value, raw))
    except ValueError as error:
        rest = text[done:].strip()
        reads.append(Read(rest, guess_name(rest), error=f"bad JSON: {error}"))
    return reads or [Read(text, error="the block holds no call")]


def ends_in_string(text: str) -> bool:
    """Whether the text breaks off inside a JSON string."""
    try:
        for _ in _objects(_unfenced(text)):
            pass
    except StillOpen:
        return True
    except ValueError:
        pass
    return False


def as_args(value: object) -> dict:
    """The arguments of a call, decoded where they come as JSON inside a string; ValueError if they are no object."""
    if isinstance(value, str) and value.strip():
        try:
            value = whole_json(value)
        except ValueError as error:
            raise ValueError(f'"arguments" is text that is no JSON object: {error}') from None
    if value is None or isinstance(value, str) and not value.strip():
        return {}
    if not isinstance(value, dict):
        raise ValueError(f'"arguments" must be a JSON object, not {str(value)[:40]!r}')
    return value


def guess_name(text: str) -> str | None:
    """The tool a broken call probably meant, for the message about it."""
    name = re.search(r'"name"\s*:\s*"([^"\n]+)"|\bname="([^"\n]+)"|<function=([^\s<>]+)>|call:([\w.-]+)', text)
    return name and next(filter(None, name.groups()))


def _objects(text: str) -> Iterator[tuple[object, str, int]]:
    at = _BETWEEN.match(text).end()
    while at < len(text):
        value, end = read_json(text, at)
        yield value, text[at:end], end
        at = _BETWEEN.match(text, end).end()


def _unfenced(text: str) -> str:
    return re.sub(r"```\s*$", "", re.sub(r"^\s*```\w*", "", text))


def _call(item: object, raw: str) -> Read:
    if not isinstance(item, dict):
        return Read(raw, error=f"a call is a JSON object, not {raw[:40]}")
    name = item.get("name")
    if not isinstance(name, str) or not name.strip():
        return Read(raw, error='"name" must be the name of a tool')
    given = [key for key in ("arguments", "parameters") if key in item]
    other = [key for key in item if key not in ("name", "arguments", "parameters", "id", "type")]
    if other or len(given) > 1:
        return Read(raw, name, error=f"{', '.join(other or given)}: all arguments belong inside \"arguments\"")
    try:
        return Read(raw, name.strip(), as_args(item[given[0]] if given else {}))
    except ValueError as error:
        return Read(raw, name, error=str(error))
