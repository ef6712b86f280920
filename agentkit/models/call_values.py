"""Reading the values inside a call: JSON, Gemma's notation, Python literals. Nothing here is ever evaluated.

Each reader either returns plain JSON-ready data or raises ValueError with one clear line.
"""

import ast
import json
import re
import warnings


class StillOpen(ValueError):
    """The text ends inside a quoted value, so a closing tag found there may belong to the value."""


def read_json(text: str, at: int = 0) -> tuple[object, int]:
    """One JSON value that begins at `at`; returns it and where it ends.

    Line breaks inside strings are tolerated: models write them. Raises StillOpen, or ValueError for a value that is
    broken, names a key twice, nests too deeply, or could not be written as JSON again (NaN, half a surrogate pair).
    """
    try:
        value, end = _JSON.raw_decode(text, at)
        writable(value)
    except json.JSONDecodeError as error:
        words = f"{error.msg} at character {error.pos - at}, near {text[max(at, error.pos - 10):error.pos + 10]!r}"
        raise (StillOpen if error.msg.startswith("Unterminated string") else ValueError)(words) from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value, end


def whole_json(text: str) -> object:
    """The JSON value that is the whole of `text`; ValueError also for anything after it."""
    text = text.strip()
    value, end = read_json(text)
    if end < len(text):
        raise ValueError(f"text after the value: {text[end:end + 20]!r}")
    return value


def without_tag(text: str, tag: str) -> str:
    """Text without the closing tag at its end, also if the turn ended within the tag; one "<" alone says too little."""
    return next((text[:-n] for n in range(len(tag), 1, -1) if text.endswith(tag[:n])), text)


def writable(value: object) -> None:
    """Refuse, with ValueError or RecursionError, data that no file, database or request could take as JSON."""
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def _each_key_once(pairs: list[tuple[str, object]]) -> dict:
    for number, (key, _) in enumerate(pairs):
        if any(key == earlier for earlier, _ in pairs[:number]):
            raise ValueError(f"{key!r} is given twice")  # json would keep the last one in silence
    return dict(pairs)


_JSON = json.JSONDecoder(strict=False, object_pairs_hook=_each_key_once)


class GemmaReader:
    """Gemma's notation, `call:name{key:value,...}`: a descent over the text with one position.

    Strings stand in Gemma 4's quote token, FunctionGemma's `<escape>` or ordinary double quotes; what is none of
    these and no number, true, false or null is text up to the next comma or bracket.
    """

    QUOTES = ('<|"|>', "<escape>")
    _WORDS = {"true": True, "false": False, "null": None, "none": None}

    def __init__(self, text: str, at: int = 0):
        self.text, self.at = text, at

    def call(self) -> tuple[str, dict]:
        """Read one call and stop behind it. Raises StillOpen or ValueError."""
        name = self._match(r"\s*call:\s*([\w.-]+)\s*", "call:name{...}")[1]
        try:
            args = self._object()
            writable(args)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        return name, args

    def _object(self) -> dict:
        pairs = []
        self._match(r"\s*\{\s*", "{")
        while not self._take("}"):
            if pairs:
                self._match(r",\s*", ", or }")
            quoted = self._quoted()
            key = quoted if quoted is not None else self._match(r"[^\s:,{}\[\]\"<]+", "a key")[0]
            self._match(r"\s*:\s*", f": after {key}")
            pairs.append((key, self._value()))
        return _each_key_once(pairs)

    def _list(self) -> list:
        items = []
        self._match(r"\[\s*", "[")
        while not self._take("]"):
            if items:
                self._match(r",\s*", ", or ]")
            items.append(self._value())
        return items

    def _value(self) -> object:
        value = self._quoted()
        if value is None:
            following = self.text[self.at:self.at + 1]
            value = self._object() if following == "{" else self._list() if following == "[" else self._bare()
        self._match(r"\s*", "")
        return value

    def _quoted(self) -> str | None:
        for quote in self.QUOTES:
            if self.text.startswith(quote, self.at):
                end = self.text.find(quote, self.at + len(quote))
                if end < 0:
                    raise StillOpen(f"no closing {quote}")
                value, self.at = self.text[self.at + len(quote):end], end + len(quote)
                return value
        if self.text.startswith('"', self.at):
            value, self.at = read_json(self.text, self.at)
            return value
        return None

    def _bare(self) -> object:
        text = self._match(r"[^,{}\[\]]+", "a value")[0].strip()
        if text.lower() in self._WORDS:
            return self._WORDS[text.lower()]
        try:
            return whole_json(text)
        except ValueError:
            return text

    def _take(self, bracket: str) -> bool:
        if found := self.text.startswith(bracket, self.at):
            self.at += 1
        return found

    def _match(self, pattern: str, expected: str) -> re.Match:
        match = re.compile(pattern).match(self.text, self.at)
        if not match:
            raise ValueError(f"expected {expected} at character {self.at}, near {self.text[self.at:self.at + 20]!r}")
        self.at = match.end()
        return match


def python_list(text: str) -> list[tuple[str, ast.expr]]:
    """The items of a Python list as (source, node). Raises ValueError for text that is no Python list."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the parser warns about "\d" in the model's strings on our stderr
            node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"not a Python list: {getattr(error, 'msg', error)}") from None
    if not isinstance(node, ast.List) or not node.elts:
        raise ValueError("not a Python list of calls")
    return [(ast.get_source_segment(text, item) or text, item) for item in node.elts]


def python_call(node: ast.expr) -> tuple[str, dict]:
    """Name and arguments of `name(key=value, ...)`. Raises ValueError for whatever is more than that."""
    if not isinstance(node, ast.Call):
        raise ValueError(f"a {type(node).__name__} is not a call")
    name = python_name(node.func)
    if node.args:
        raise ValueError(f"{name}: every argument needs its name")
    args = {}
    try:
        for word in node.keywords:
            if word.arg is None:
                raise ValueError(f"{name}: ** is not allowed")
            args[word.arg] = _literal(word.value)
        writable(args)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return name, args


def python_name(node: ast.expr) -> str:
    """A plain or dotted name as text; ValueError for anything computed."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        raise ValueError(f"a {type(node).__name__} is not a tool's name")
    return ".".join([node.id, *reversed(parts)])


def _literal(node: ast.expr) -> object:
    # Not literal_eval: only what JSON knows may pass, and the refusal names what was found.
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | None):
        return node.value
    if isinstance(node, ast.List | ast.Tuple):
        return [_literal(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        keys = [_literal(key) if key else None for key in node.keys]
        if not all(isinstance(key, str) for key in keys):
            raise ValueError("keys of a dict must be text")
        return _each_key_once(list(zip(keys, map(_literal, node.values))))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _literal(node.operand)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return -value
    raise ValueError(f"{ast.unparse(node)[:60]} is no constant, list, tuple or dict")
