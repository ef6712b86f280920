"""Bytes of a file as text: which encoding, or that it is no text at all."""

import codecs

from agentkit.sandbox.files import FileRefused

# UTF-32 first: its little-endian mark begins with the one of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_KINDS = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF87a", "a GIF image"),
    (b"GIF89a", "a GIF image"),
    (b"%PDF", "a PDF"),
    (b"PK\x03\x04", "a zip archive or an office document"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3", "a SQLite database"),
)


def decode(data: bytes, path: str) -> tuple[str, str]:
    """The text with line ends as newlines, and its encoding: utf-8, utf-16, utf-32 or, as the last resort, latin-1.

    Raises FileRefused for a binary file.
    """
    for start, kind in _KINDS:
        if data.startswith(start):
            raise FileRefused(f"{path} is {kind}, not a text file")
    text, encoding = _decoded(data)
    if text is None:
        raise FileRefused(f"{path} is a binary file of {len(data)} bytes, not a text file")
    return text.replace("\r\n", "\n").replace("\r", "\n"), encoding


def _decoded(data: bytes) -> tuple[str | None, str]:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return data.decode(encoding), encoding.removesuffix("-sig")
            except UnicodeDecodeError:
                return None, ""
    if b"\0" in data:
        return None, ""
    try:
        return data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    # latin-1 accepts every byte, so noise has to be told from text: real text holds next to no control characters.
    odd = sum(c < " " and c not in "\t\n\r\f\x1b" or "\x7f" <= c <= "\x9f" for c in text)
    return (None if odd > len(text) / 50 else text), "latin-1"
