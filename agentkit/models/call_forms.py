"""The forms in which models write calls: how each begins, where it ends and what it says.

A form answers three questions about text, and nothing about streaming. Its answers never change when more text
arrives, only "cannot tell yet" (None) may become an answer: that is why any chunking gives the same calls.
"""

import re
from collections.abc import Iterable

from agentkit.models import call_values as values
from agentkit.models.call_schema import functions
from agentkit.models.json_calls import Read, as_args, ends_in_string, guess_name, json_calls
from agentkit.models.xml_calls import function_begins, function_end, read_functions

JSON_SAMPLE = '<tool_call>{"name": "tool", "arguments": {"key": "value"}}</tool_call>'
XML_SAMPLE = "<tool_call><function=tool><parameter=key>value</parameter></function></tool_call>"


def starts(text: str, options: Iterable[str]) -> bool | None:
    """Whether text starts with one of the options; None while it is too short to tell."""
    if text.startswith(options := tuple(options)):
        return True
    return None if any(option.startswith(text) for option in options) else False


class CallForm:
    """Base: a block between `opener` and `closer`. `sample` is how to write a call, for error messages."""

    opener = ""
    closer = ""
    sample = JSON_SAMPLE

    def begins(self, rest: str) -> bool | None:
        """Whether a call follows the opener, by the text behind it; False: the opener is a mention in prose."""
        return _call_follows(rest)

    def end(self, block: str, last: bool = False) -> int | None:
        """Where the block that begins with the opener ends; None while it is open.

        A closing tag inside a quoted value does not end the block. `last`: no more text will come, so the first
        closing tag is taken if none was better.
        """
        first = None
        for tag in re.finditer(re.escape(self.closer), block) if self.closer else ():
            first = first or tag.end()
            if not self._still_open(block[len(self.opener):tag.start()]):
                return tag.end()
        return first if last else None

    def read(self, block: str, tools: list[dict] | None) -> list[Read]:
        """The calls of a block, well-formed or not, in order; the closing tag may be missing. [] : it is no call."""
        reads = self._read(block.removeprefix(self.opener), tools)
        if len(reads) == 1:  # the only one: all of the block belongs to it
            reads = [Read(block, reads[0].name, reads[0].args, reads[0].error)]
        return [Read(r.raw, r.name, r.args, f"{r.error}; write {self._how(block)}") if r.error else r for r in reads]

    def plausible(self, block: str, tools: list[dict] | None) -> bool:
        """Whether a block that was cut off can only have been a call."""
        return True

    def _how(self, block: str) -> str:
        return self.sample

    def _still_open(self, body: str) -> bool:
        return False

    def _read(self, body: str, tools: list[dict] | None) -> list[Read]:
        raise NotImplementedError


class ToolCallTag(CallForm):
    """`<tool_call>...</tool_call>`: JSON objects (hermes) or `<function=` blocks (qwen3_coder), told by the body."""

    opener, closer = "<tool_call>", "</tool_call>"

    def __init__(self, sample: str = JSON_SAMPLE):
        self.sample = sample

    def begins(self, rest: str) -> bool | None:
        body = rest.lstrip()
        found = starts(body, ("{", "[", "```", "<function="))
        if found is False and (word := re.match(r"\w[\w.-]*\s*", body)):
            # Neither body we read, yet clearly no prose: GLM's markup, or a bare name between the tags.
            spaced = body != rest or word[0][-1].isspace()
            found = starts(body[word.end():], ("<arg_key>",) if spaced else ("<arg_key>", self.closer))
        if found is False and "\n" in rest[:len(rest) - len(body)]:
            # A tag that ends its line opens a block if it is ever closed.
            found = True if self.closer in body else None
        return found

    def end(self, block: str, last: bool = False) -> int | None:
        at = _skip_blank(block, len(self.opener))
        if not block.startswith("<function=", at):
            return super().end(block, last)
        while block.startswith("<function=", at):
            if (end := function_end(block, at, last)) is None:
                return None
            at = _skip_blank(block, end)
        if block.startswith(self.closer, at):
            return at + len(self.closer)
        if last and starts(block[at:], (self.closer,)) is None:
            return len(block)
        # Text behind the last function ends the block without its tag; an incomplete tag is waited for.
        return end if last or starts(block[at:], ("<function=", self.closer)) is False else None

    def _how(self, block: str) -> str:
        return XML_SAMPLE if block[len(self.opener):].lstrip().startswith("<function=") else self.sample

    def _still_open(self, body: str) -> bool:
        return ends_in_string(body)

    def _read(self, body: str, tools: list[dict] | None) -> list[Read]:
        if "<arg_key>" in body and not body.lstrip().startswith(("{", "[", "`", "<function=")):
            return [Read(body, error="looks like a call, no parser for <arg_key>")]
        if body.lstrip().startswith("<function="):
            return read_functions(body, tools)
        return json_calls(values.without_tag(body, self.closer))


class BareFunction(CallForm):
    """`<function=name><parameter=key>value</parameter></function>` without a wrapper."""

    opener, sample = "<function=", XML_SAMPLE

    def begins(self, rest: str) -> bool | None:
        return function_begins(rest)

    def end(self, block: str, last: bool = False) -> int | None:
        return function_end(block, 0, last)

    def _read(self, body: str, tools: list[dict] | None) -> list[Read]:
        return read_functions(self.opener + body, tools)


class MistralCalls(CallForm):
    """`[TOOL_CALLS][{"name":..,"arguments":..}]` or `[TOOL_CALLS]name[ARGS]{..}`; it ends where its JSON ends."""

    opener = "[TOOL_CALLS]"
    sample = '[TOOL_CALLS][{"name": "tool", "arguments": {"key": "value"}}]'
    _HEAD = re.compile(r"\s*([\w.-]+)\s*(?:\[CALL_ID\]\s*\w*\s*)?(?:\[ARGS\])?\s*(?={)")

    def begins(self, rest: str) -> bool | None:
        body = rest.lstrip()
        if body.startswith("["):
            return starts(body[1:].lstrip(), ("{", "]"))
        name = re.match(r"[\w.-]+\s*", body)
        return starts(body[name.end():], ("[ARGS]", "[CALL_ID]", "{")) if name else None if not body else False

    def end(self, block: str, last: bool = False) -> int | None:
        head = self._HEAD.match(block, len(self.opener))
        try:
            return values.read_json(block, head.end() if head else _skip_blank(block, len(self.opener)))[1]
        except ValueError:  # incomplete or broken: without a closing tag only the next opener can tell
            following = block.find(self.opener, len(self.opener))
            return following if last and following > 0 else None

    def _read(self, body: str, tools: list[dict] | None) -> list[Read]:
        if not (head := self._HEAD.match(body)):
            return json_calls(body)
        try:
            return [Read(body, head[1], as_args(values.whole_json(body[head.end():])))]
        except ValueError as error:
            return [Read(body, head[1], error=str(error))]


class GemmaCalls(CallForm):
    """`call:name{...}` in Gemma 4's or FunctionGemma's tags; several calls may share a block."""

    def __init__(self, opener: str, closer: str, quote: str):
        self.opener, self.closer = opener, closer
        self.sample = f"{opener}call:tool{{key:{quote}value{quote}}}{closer}"

    def _still_open(self, body: str) -> bool:
        try:
            self._calls(body)
        except values.StillOpen:
            return True
        except ValueError:
            pass
        return False

    def _read(self, body: str, tools: list[dict] | None) -> list[Read]:
        try:
            return self._calls(values.without_tag(body, self.closer))
        except ValueError as error:
            name = re.match(r"\s*call:\s*([\w.-]+)", body)
            return [Read(body, name and name[1], error=str(error))]

    @staticmethod
    def _calls(body: str) -> list[Read]:
        reader, reads = values.GemmaReader(body), []
        while not reads or body[reader.at:].strip(" \r\n\t,;"):
            reader.at += len(body[reader.at:]) - len(body[reader.at:].lstrip(" \r\n\t,;"))
            start = reader.at
            name, args = reader.call()
            reads.append(Read(body[start:reader.at], name, args))
        return reads


class PythonList(CallForm):
    """`[name(key=value), ...]` as the whole of a turn, also in a fence or between Llama's or LFM's tags."""

    sample = '[tool(key="value")]'
    _TAGS = {"<|python_start|>": "<|python_end|>", "<|tool_call_start|>": "<|tool_call_end|>"}
    _FENCE = re.compile(r"```(\w*)")

    def begins(self, rest: str) -> bool | None:
        inner = rest.lstrip()
        if (fence := self._FENCE.match(inner)) and fence.end() == len(inner):
            return None
        if fence and fence[1] not in ("", "python", "py", "tool_code"):
            return False
        if starts(inner, (*self._TAGS, "```")) is None:
            return None
        inner = self._unwrapped(inner)
        if re.match(r"\[\s*[^\W\d][\w.]*\s*\(", inner):
            return True
        return None if re.fullmatch(r"(\[\s*([^\W\d][\w.]*\s*)?)?", inner) else False

    def end(self, block: str, last: bool = False) -> int | None:
        return None  # only the end of the turn shows that nothing but the list was written

    def plausible(self, block: str, tools: list[dict] | None) -> bool:
        first = re.match(r"\[\s*([\w.]+)", self._unwrapped(block.strip()))
        return bool(first) and (not tools or first[1] in functions(tools))

    def _read(self, body: str, tools: list[dict] | None) -> list[Read]:
        inner, known, reads = self._unwrapped(body.strip()), functions(tools), []
        first = re.match(r"\[\s*([\w.]+)", inner)
        if not inner.endswith("]") or not self.plausible(body, tools):
            return []
        try:
            items = values.python_list(inner)
        except ValueError as error:
            return [Read(body, first and first[1], error=str(error))]
        for source, node in items:
            try:
                reads.append(Read(source, *values.python_call(node)))
            except ValueError as error:
                name = re.match(r"[\w.]+", source)
                reads.append(Read(source, name and name[0], error=str(error)))
        return [] if tools and any(r.args is not None and r.name not in known for r in reads) else reads

    def _unwrapped(self, text: str) -> str:
        if fence := self._FENCE.match(text):
            return text[fence.end():].removesuffix("```").strip()
        for opener, closer in self._TAGS.items():
            if text.startswith(opener):
                return text.removeprefix(opener).removesuffix(closer).strip()
        return text


class NoParser(CallForm):
    """Markup of a family without a parser here, or of a known one that the chosen form leaves out."""

    def __init__(self, opener: str, closer: str, sample: str, like: CallForm | None = None):
        self.opener, self.closer, self.sample, self._like = opener, closer, sample, like

    def begins(self, rest: str) -> bool | None:
        if self._like:
            return self._like.begins(rest)
        return starts(rest, ('"', "'")) if self.opener.endswith("=") else _call_follows(rest)

    def end(self, block: str, last: bool = False) -> int | None:
        return self._like.end(block, last) if self._like else super().end(block, last)

    def _read(self, body: str, tools: list[dict] | None) -> list[Read]:
        return [Read(body, guess_name(body), error=f"looks like a call, no parser for {self.opener}")]


def _call_follows(rest: str) -> bool | None:
    body = rest.lstrip()
    if not body:
        return None
    return body[0] in "<{[" or body == rest and (body[0].isalnum() or body[0] == "_")


def _skip_blank(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


_GEMMA4 = GemmaCalls("<|tool_call>", "<tool_call|>", '<|"|>')
_FUNCTION_GEMMA = GemmaCalls("<start_function_call>", "<end_function_call>", "<escape>")
_MISTRAL, _BARE, PYTHON_LIST = MistralCalls(), BareFunction(), PythonList()

# Which tag-based forms a parser reads; "pythonic" has no tag of its own.
FORMS: dict[str, tuple[CallForm, ...]] = {
    "auto": (ToolCallTag(), _BARE, _GEMMA4, _FUNCTION_GEMMA, _MISTRAL),
    "hermes": (ToolCallTag(),),
    "qwen3_coder": (ToolCallTag(XML_SAMPLE), _BARE),
    "mistral": (_MISTRAL,),
    "pythonic": (),
    "gemma": (_GEMMA4, _FUNCTION_GEMMA),
}

NO_PARSER = {
    "<minimax:tool_call>": "</minimax:tool_call>",
    "<longcat_tool_call>": "</longcat_tool_call>",
    "<atem:function_calls>": "</atem:function_calls>",
    "<function_calls>": "</function_calls>",
    "<invoke name=": "</invoke>",
    "<|python_tag|>": "",
    "<|python_start|>": "<|python_end|>",
    "<|tool_call_start|>": "<|tool_call_end|>",
    "<|tool_calls_section_begin|>": "<|tool_calls_section_end|>",
    "<|tool_call_begin|>": "<|tool_call_end|>",
    "<|open|>tools<|sep|>": "<|close|>tools<|sep|>",
    "<｜tool▁calls▁begin｜>": "<｜tool▁calls▁end｜>",
}


def call_forms(form: str) -> dict[str, CallForm]:
    """Opening tag to form, for a parser of `form`: what it reads, and what it must refuse rather than show."""
    sample = PYTHON_LIST.sample if form == "pythonic" else FORMS[form][0].sample
    forms = {tag: NoParser(tag, closer, sample) for tag, closer in NO_PARSER.items()}
    forms |= {f.opener: NoParser(f.opener, f.closer, sample, like=f) for f in FORMS["auto"]}
    return forms | {f.opener: f for f in FORMS[form]}


def form_of(chat_template: str | None) -> str:
    """The form that a chat template teaches its model, by the tags in the template's text; "auto" if none is known."""
    text = chat_template or ""
    families = [tag for tag in NO_PARSER if tag not in ("<|python_start|>", "<|tool_call_start|>")]
    if "<arg_key>" in text or any(tag in text for tag in families):
        return "auto"
    for form, tags in (("gemma", ("<|tool_call>", "<start_function_call>")), ("qwen3_coder", ("<function=",)),
                       ("mistral", ("[TOOL_CALLS]",)), ("hermes", ("<tool_call>",)),
                       ("pythonic", ("<|python_start|>", "<|tool_call_start|>", "<|tool_list_start|>"))):
        if any(tag in text for tag in tags):
            return form
    return "pythonic" if re.search(r"\[\w+\(\w+=", text) else "auto"
