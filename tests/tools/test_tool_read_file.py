"""`read_file` on real files: every part of a file can be reached, and what was cut is said."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit.tools.base import ToolFailed
from agentkit.tools.files import MOST_CHARACTERS, read_file_tool, read_text

NOTE = re.compile(r"\n\[(lines [^\]]*)\]$")


def _all_of(folder, path, limit=200):
    """Read a file the way a model has to: follow the note until it names no further start."""
    parts, start = [], 1
    for _ in range(10_000):
        text = read_text(folder, path, start, limit)
        note = NOTE.search(text)
        assert len(text) <= MOST_CHARACTERS + 200
        parts.append(text[: note.start()] if note else text)
        more = note and re.search(r"to go on: start=(\d+)", note[1])
        if not more:
            return parts
        start = int(more[1])
    raise AssertionError("no end")


def test_a_small_file_comes_as_it_is(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    assert read_file_tool(tmp_path).invoke({"path": "a.txt"}) == "one\ntwo"


def test_a_stretch_says_where_it_lies(tmp_path):
    (tmp_path / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 501)))
    tool = read_file_tool(tmp_path)
    assert tool.invoke({"path": "a.txt", "start": 499}) == "line 499\nline 500\n[lines 499 to 500 of 500]"
    assert (
        tool.invoke({"path": "a.txt", "start": 10, "limit": 1})
        == "line 10\n[lines 10 to 10 of 500; to go on: start=11]"
    )
    assert tool.invoke({"path": "a.txt"}).endswith("line 200\n[lines 1 to 200 of 500; to go on: start=201]")


@settings(max_examples=40)
@given(
    lines=st.lists(
        st.one_of(st.text("ab ภา😀", max_size=50), st.integers(3900, 9000).map(lambda n: "x" * n)),
        min_size=1,
        max_size=30,
    ),
    limit=st.integers(1, 50),
)
def test_following_the_notes_reads_the_whole_file(tmp_path_factory, lines, limit):
    folder = tmp_path_factory.mktemp("read")
    text = "\n".join(lines)
    (folder / "a.txt").write_text(text)
    if not text:
        return
    joined = "\n".join(_all_of(folder, "a.txt", limit))
    # Long lines come in pieces; beyond that nothing is lost or added.
    assert joined.replace("\n", "") == text.replace("\n", "")
    if all(len(line) <= 4000 for line in lines):
        assert joined == text.removesuffix("\n")


def test_one_endless_line_can_be_read_to_its_end(tmp_path):
    (tmp_path / "min.json").write_text("0123456789" * 3000)
    first = read_text(tmp_path, "min.json")
    assert first.endswith("[lines 1 to 2 of 8; to go on: start=3; lines over 4000 characters count as several]")
    assert "".join(_all_of(tmp_path, "min.json")) == "0123456789" * 3000


def test_encodings_are_said(tmp_path):
    (tmp_path / "16.txt").write_bytes("ภาษาไทย\r\nสอง".encode("utf-16"))
    (tmp_path / "old.txt").write_bytes("Größe".encode("latin-1"))
    (tmp_path / "none.txt").write_bytes(b"")
    assert read_text(tmp_path, "16.txt") == "ภาษาไทย\nสอง\n[read as utf-16]"
    assert read_text(tmp_path, "old.txt") == "Größe\n[not valid UTF-8, so it was read as latin-1]"
    assert read_text(tmp_path, "none.txt") == "(empty file)"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"path": "../x"}, "leads out of the workspace"),
        ({"path": "no.txt"}, "does not exist"),
        ({"path": "."}, "is a folder"),
        ({"path": "a.txt", "start": 3}, "ends at line 2: start is 3"),
        ({"path": "a.txt", "start": 0}, "lines count from 1"),
        ({"path": "a.txt", "limit": 0}, "at least 1 line"),
        ({"path": "a.bin"}, "binary file"),
        ({"path": ""}, "path is empty"),
    ],
)
def test_what_goes_wrong_is_one_line_for_the_model(tmp_path, asked, said):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "a.bin").write_bytes(bytes(range(256)))
    with pytest.raises(ToolFailed) as caught:
        read_file_tool(tmp_path).invoke(asked)
    assert said in str(caught.value) and "\n" not in str(caught.value)
