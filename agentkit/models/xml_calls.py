"""Qwen3-Coder's calls: `<function=name><parameter=key>value</parameter></function>`, values written as bare text.

The text of a value may hold any of these tags, and models forget to write them, so tags are weighed, not counted.
"""

import re

from agentkit.models.call_schema import coerce
from agentkit.models.call_values import whole_json, without_tag, writable
from agentkit.models.json_calls import Read

_HEAD = re.compile(r"<function=\s*[\"']?([^\s<>\"']+)[\"']?\s*>?")
_TAG = re.compile(r"</function>|</tool_call>|<function=|<tool_call>")
_PARAMETER = re.compile(r"<parameter=\s*[\"']?([^<>\n\"']+?)[\"']?\s*>")
_CLOSE = "</parameter>"


def function_begins(rest: str) -> bool | None:
    """Whether a call follows `<function=`: a name, `>`, then a parameter, JSON or the end. None: cannot tell yet."""
    head = re.match(r"[\"']?[^\s<>\"']{1,100}[\"']?\s*>\s*", rest)
    if not head:
        return None if re.fullmatch(r"[\"']?[^\s<>\"']{0,100}[\"']?[ \t]*", rest) else False
    tail = rest[head.end():]
    options = ("<parameter=", "</function>", "{")
    return True if tail.startswith(options) else None if any(o.startswith(tail) for o in options) else False


def function_end(text: str, at: int, last: bool) -> int | None:
    """Where the function that begins at `at` ends; None while it is open.

    `</function>` ends it if all its parameters are closed there. Otherwise the tag may be part of a value: it ends
    the function only if another begins before a better end is found, or if no more text will come (`last`).
    """
    head, first = _HEAD.match(text, at), None
    for tag in _TAG.finditer(text, head.end() if head else at + 1):
        if tag[0] == "</function>":
            if _complete(text[head.end():tag.start()] if head else ""):
                return tag.end()
            first = first or tag.end()
        elif tag[0] == "</tool_call>":
            first = first or tag.start()
        elif first:
            return first
    return first if last else None


def read_functions(text: str, tools: list[dict] | None) -> list[Read]:
    """All functions of a block; the last may be cut."""
    found, at = [], text.find("<function=")
    while at >= 0:
        end = function_end(text, at, last=True)
        found.append(_read(text[at:end], closed=end is not None, tools=tools))
        at = text.find("<function=", end) if end else -1
    return found


def _complete(body: str) -> bool:
    body = body.strip()
    return not body or body.endswith(_CLOSE) or _json_object(body) is not None


def _read(raw: str, closed: bool, tools: list[dict] | None) -> Read:
    head = _HEAD.match(raw)
    if not head:
        return Read(raw, error="<function= needs a name")
    name = head[1]
    body = without_tag(raw[head.end():].strip(), "</function>")
    if (args := _json_object(body)) is not None:
        return Read(raw, name, args)
    parts = list(_PARAMETER.finditer(body))
    if outside := body[:parts[0].start() if parts else len(body)].strip():
        return Read(raw, name, error=f"text outside of a parameter: {outside[:60]!r}")
    if not parts and not closed:
        return Read(raw, name, error="the function is not closed")
    args = {}
    for part, following in zip(parts, [*parts[1:], None]):
        key, segment = part[1], body[part.end():following.start() if following else len(body)]
        value, close, outside = segment.rpartition(_CLOSE)
        if not close:
            value, outside = segment, ""
            # A later tag shows that the value had ended; without one it may have been cut anywhere.
            if not following and not closed or "<function=" in segment:
                return Read(raw, name, error=f"unterminated parameter {key}")
        if outside.strip():
            return Read(raw, name, error=f"text outside of a parameter: {outside.strip()[:60]!r}")
        if key in args:
            return Read(raw, name, error=f"parameter {key} is given twice")
        args[key] = coerce(value.removeprefix("\n").removesuffix("\n"), name, key, tools)
    try:
        writable(args)
    except (ValueError, RecursionError) as error:
        return Read(raw, name, error=str(error))
    return Read(raw, name, args)


def _json_object(body: str) -> dict | None:
    """Arguments of models that write `<function=name>{...}</function>`."""
    try:
        value = whole_json(body) if body.lstrip().startswith("{") else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
