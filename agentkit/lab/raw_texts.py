"""Raw texts for the microscope: what models write, before anything has been read out of it. Each has one difficulty."""

from dataclasses import dataclass

LIGHT = {"type": "function", "function": {
    "name": "set_light", "description": "Switch a light.", "parameters": {
        "type": "object", "required": ["room"],
        "properties": {"room": {"type": "string"}, "on": {"type": "boolean"}}}}}


@dataclass(frozen=True)
class RawText:
    """A text with what the parser is told beside it: whether the turn starts in a thought, how it ended, the tools."""

    text: str
    about: str
    thinking: bool = False
    finish: str = "stop"
    tools: tuple[dict, ...] = ()


def _functions(*bodies: str) -> str:
    blocks = "\n".join(f"<function=set_light>\n{body}\n</function>" for body in bodies)
    return f"<tool_call>\n{blocks}\n</tool_call>"


def _room(value: str) -> str:
    return f"<parameter=room>\n{value}\n</parameter>"


_SUM = '<tool_call>\n{"name": "calculator", "arguments": {"expression": "%s"}}\n</tool_call>'

RAW_TEXTS = {
    "a call": RawText(_SUM % "23 * 19", "The bundled model's own form, called Hermes: JSON between two tags."),
    "text and two calls": RawText(
        f"I will work out both.\n{_SUM % '23 * 19'}\n{_SUM % '437 + 5'}", "Two blocks after a sentence."),
    "a mention in a thought": RawText(
        "The user only says hello, so I need no <tool_call> here.\n</think>\n\nHello! What shall we work out?",
        "The tag is part of a sentence inside a thought. The answer behind it must arrive.", thinking=True),
    "a call in a thought": RawText(
        f"I need 23 times 19.\n{_SUM % '23 * 19'}",
        "The model forgot to close its thought. Nothing but the call follows, so it is believed.", thinking=True),
    "a call that is cut": RawText(
        _SUM.partition("%s")[0] + "23 * 1", "The token limit came in the middle of the arguments.", finish="length"),
    "a mention in backticks": RawText(
        "A call begins with `<tool_call>` and a brace.\n" + _SUM % "23 * 19", "First a quotation, then a real call."),
    "another family's call": RawText(
        '<function_calls>\n<invoke name="calculator">\n<parameter name="expression">23 * 19</parameter>\n'
        "</invoke>\n</function_calls>", "A form that agentkit does not read. It is refused, not shown as an answer."),
    "a value with a blank": RawText(
        _functions(f"{_room('kitchen')}\n<parameter=on>\nTrue \n</parameter>"),
        "Qwen3-Coder's form: values are bare text, and the schema says that `on` is a boolean.", tools=(LIGHT,)),
    "two functions in one block": RawText(
        _functions(_room("kitchen"), _room("hall")), "Both were meant.", tools=(LIGHT,)),
    "a closing tag is missing": RawText(
        _functions("<parameter=room>\nkitchen"), "There is no </parameter>; the function is closed.", tools=(LIGHT,)),
    "a closing tag in a value": RawText(
        _functions(_room("the one marked </parameter> on the plan")), "A value may hold any text.", tools=(LIGHT,)),
}
