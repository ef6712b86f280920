"""Which bytes are text, and in which encoding."""

import codecs
import gzip
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.sandbox.files import FileRefused
from agentkit.sandbox.text import decode

TEXT = "Žluťoučký kůň, ภาษาไทย, فارسی, 😀\n"


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (TEXT.encode(), "utf-8"),
        (codecs.BOM_UTF8 + TEXT.encode(), "utf-8"),
        (TEXT.encode("utf-16"), "utf-16"),
        (codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"), "utf-16"),
        (TEXT.encode("utf-32"), "utf-32"),
    ],
)
def test_marked_and_plain_unicode(data, encoding):
    assert decode(data, "f") == (TEXT, encoding)


def test_old_western_text_is_read_and_said_to_be_a_guess():
    assert decode("Größe: 3 µm, café".encode("latin-1"), "f") == ("Größe: 3 µm, café", "latin-1")


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), min_size=0))
def test_every_utf8_text_comes_back_unless_it_begins_like_a_mark(text):
    if text.startswith(("\ufeff", "%PDF", "GIF8", "PK\x03\x04", "SQLite format 3", "\x7fELF")):
        return
    assert decode(text.encode(), "f") == (text, "utf-8")


def test_line_ends_become_newlines():
    assert decode(b"a\r\nb\rc\n", "f")[0] == "a\nb\nc\n"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x89PNG\r\n\x1a\n....", "PNG image"),
        (b"%PDF-1.7 plain text follows", "PDF"),
        (gzip.compress(b"x"), "gzip"),
        (b"text\0text", "binary file of 9 bytes"),
        (codecs.BOM_UTF16_LE + b"\x00\xd8\x41", "binary"),
        (bytes(b for b in random.Random(1).randbytes(4000) if b), "binary"),
    ],
)
def test_what_is_no_text_is_refused(data, said):
    with pytest.raises(FileRefused, match=said):
        decode(data, "f")
