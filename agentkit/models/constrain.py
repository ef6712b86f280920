"""Constrained decoding with llguidance: a call is always well-formed and names an existing tool.

The grammar is written for the form and the spacing that the chat template itself uses, so constrained and free calls
read alike. Where it leaves one continuation only, the tokens are forced: the engine runs them through the model
together, in the time of about one.
"""

import json
from dataclasses import dataclass

import llguidance
import llguidance.hf
import llguidance.numpy
import mlx.core as mx
import numpy as np

from agentkit.models.errors import AgentkitError

# Lenient: what a grammar cannot say (uniqueItems, not, if) is left to the check of the finished call.
_SPACING = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "lenient": True}

# What may name arguments beside `properties`; a tool with none of it takes no arguments.
_OPEN = {"additionalProperties", "patternProperties", "anyOf", "allOf", "$ref", "enum", "const"}


@dataclass(frozen=True)
class ToolChoice:
    """How free the model is: `mode` "auto" (text or a call), "required" (any call) or "named" (this tool)."""

    mode: str = "auto"
    name: str | None = None


def own_tags(tokenizer) -> bool:
    """Whether `<tool_call>` and its end are tokens of their own, as in Qwen3: llguidance then wants them by name."""
    return {"<tool_call>", "</tool_call>"} <= tokenizer.get_added_vocab().keys()


def grammar_for(tools: list[dict], choice: ToolChoice = ToolChoice(), thinking: bool = False, tags: bool = False) -> str:
    """Lark grammar of one answer: free text or one call in the Hermes form; tools are OpenAI-style schemas.

    Arguments follow each tool's JSON schema; keys come in the schema's order. `thinking`: white space may come first,
    as it does after a closed thought. `tags`: see `own_tags`. Raises AgentkitError for a choice that names no bound tool.
    """
    functions = [tool.get("function", tool) for tool in tools]
    if choice.mode == "named":
        functions = [f for f in functions if f["name"] == choice.name]
        if not functions:
            raise AgentkitError(f"tool_choice names {choice.name!r}; bound are {', '.join(t.get('function', t)['name'] for t in tools)}")
    begin, end = ("<tool_call> ", " </tool_call>") if tags else (json.dumps("<tool_call>") + " ", " " + json.dumps("</tool_call>"))
    calls = []
    for f in functions:
        schema = strict(f.get("parameters") or {}) | {"x-guidance": _SPACING}
        if not schema.get("properties") and not schema.keys() & _OPEN:
            schema |= {"type": "object", "properties": {}, "additionalProperties": False}
        opening = '\n{"name": ' + json.dumps(f["name"], ensure_ascii=False) + ', "arguments": '
        calls.append(f"{begin}{json.dumps(opening)} %json {json.dumps(schema)} {json.dumps('}' + chr(10))}{end}")
    # Few blanks: a model that has lost its way could write them for ever.
    lead, blank = ("BLANK? ", "BLANK: /[ \\t\\r\\n]{1,4}/\n") if thinking else ("", "")
    body = "call: " + "\n    | ".join(calls) + "\n"
    if choice.mode != "auto":
        return f"start: {lead}call\n{blank}{body}"
    # A spoken answer starts with anything but the tag's first character, so the first token decides between the two,
    # and never holds the tag: a call inside prose would be outside the grammar.
    text = "TEXT: /\\s*[^<\\s](.|\\n)*/ & ~/(.|\\n)*<tool_call>(.|\\n)*/\n"
    return f"start: {lead}call | TEXT\n{text}{blank}{body}"


def strict(schema: dict) -> dict:
    """A JSON schema that llguidance takes, without free extra properties and without annotations it does not know."""
    kept = {}
    for key, value in schema.items():
        if key == "properties":
            kept[key] = {name: strict(p) if isinstance(p, dict) else p for name, p in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            kept[key] = strict(value)
        elif key in ("anyOf", "oneOf", "allOf"):
            kept["anyOf" if key == "oneOf" else key] = [strict(option) for option in value]
        elif key in ("$defs", "definitions"):
            kept[key] = {name: strict(p) for name, p in value.items()}
        elif key not in ("title", "description", "default", "examples", "format"):
            kept[key] = value
    if kept.get("type") == "object" or "properties" in kept:
        kept.setdefault("properties", {})
        for name in kept.get("required", []):
            kept["properties"].setdefault(name, {})
        # An object with no listed property stays open: nothing else could be written into it.
        if kept["properties"]:
            kept.setdefault("additionalProperties", False)
    return kept


class TokenGrammars:
    """Makes matchers for one tokenizer; building the token table takes about a second and happens once."""

    def __init__(self, tokenizer, vocab: int, ends: set[int]):
        self._table = llguidance.hf.from_tokenizer(tokenizer, n_vocab=vocab, eos_token=sorted(ends))
        self.vocab = vocab

    def matcher(self, grammar: str) -> "Matcher":
        """A fresh matcher; AgentkitError with llguidance's words for a grammar it refuses."""
        inner = llguidance.LLMatcher(self._table, llguidance.LLMatcher.grammar_from_lark(grammar), log_level=0)
        if inner.is_error():
            raise AgentkitError("constrained decoding: " + inner.get_error().splitlines()[0])
        return Matcher(inner, self.vocab)


class Matcher:
    """Follows one answer through a grammar."""

    def __init__(self, inner, vocab: int):
        self._inner = inner
        self.vocab = vocab
        self._bits = llguidance.numpy.allocate_token_bitmask(1, vocab)

    def forced(self) -> list[int]:
        """Tokens that must come next, already taken into the matcher; empty where there is a choice."""
        tokens = self._inner.compute_ff_tokens()
        if tokens and not self._inner.consume_tokens(tokens):
            raise AgentkitError("constrained decoding: " + self._inner.get_error())
        return tokens

    def saw(self, token: int) -> None:
        """Take one sampled token."""
        if not self._inner.consume_token(token):
            raise AgentkitError("constrained decoding: " + self._inner.get_error())

    @property
    def done(self) -> bool:
        """Whether only the end may follow."""
        return self._inner.is_stopped()

    def mask(self) -> mx.array:
        """Allowed tokens as booleans (vocab,)."""
        llguidance.numpy.fill_next_token_bitmask(self._inner, self._bits, 0)
        return mx.array(np.unpackbits(self._bits.view(np.uint8), bitorder="little")[: self.vocab].astype(bool))
