"""The files family. So far `read_file`: the text of one file of the workspace, a stretch at a time."""

from pathlib import Path
from typing import Annotated

from langchain_core.tools import BaseTool, StructuredTool

from agentkit.sandbox.files import FileRefused, read_inside
from agentkit.sandbox.text import decode
from agentkit.tools.base import ToolContext, ToolFailed, ToolSpec

MOST_BYTES = 20_000_000
MOST_CHARACTERS = 8000
FOLD = 4000  # longer lines count as several, so that every part of a file can be asked for by line


def read_text(workspace: Path, path: str, start: int = 1, limit: int = 200) -> str:
    """Lines of a text file, at most 8000 characters; a last line in brackets says what is missing and how to get it.

    Raises FileRefused or ToolFailed.
    """
    if start < 1:
        raise ToolFailed(f"start is {start}: lines count from 1")
    if limit < 1:
        raise ToolFailed(f"limit is {limit}: give at least 1 line, or leave it out")
    text, encoding = decode(read_inside(workspace, path, MOST_BYTES), path)
    if not text:
        return "(empty file)"
    lines, folded = _lines(text)
    if start > len(lines):
        raise ToolFailed(f"{path} ends at line {len(lines)}: start is {start}")
    taken = _fitting(lines[start - 1 :][:limit])
    last = start - 1 + len(taken)
    notes = [f"lines {start} to {last} of {len(lines)}"] if len(taken) < len(lines) else []
    if last < len(lines):
        notes.append(f"to go on: start={last + 1}")
    if folded:
        notes.append(f"lines over {FOLD} characters count as several")
    if encoding != "utf-8":
        notes.append("not valid UTF-8, so it was read as latin-1" if encoding == "latin-1" else f"read as {encoding}")
    return "".join(taken).removesuffix("\n") + (f"\n[{'; '.join(notes)}]" if notes else "")


def _lines(text: str) -> tuple[list[str], bool]:
    """The text's lines with their ends, long ones in pieces, and whether there were any."""
    lines = text.removesuffix("\n").split("\n")
    pieces = []
    for line in lines:
        pieces += [line[i : i + FOLD] for i in range(0, len(line) or 1, FOLD)]
        pieces[-1] += "\n"
    return pieces, len(pieces) > len(lines)


def _fitting(lines: list[str]) -> list[str]:
    used = 0
    for count, line in enumerate(lines):
        used += len(line)
        if used > MOST_CHARACTERS:
            return lines[:count]
    return lines


def read_file_tool(workspace: Path) -> BaseTool:
    """The LangChain tool, for the files of one folder."""

    def read_file(
        path: Annotated[str, "Path of the file"],
        start: Annotated[int, "First line"] = 1,
        limit: Annotated[int, "At most this many lines"] = 200,
    ) -> str:
        try:
            return read_text(workspace, path, start, limit)
        except FileRefused as error:
            raise ToolFailed(str(error)) from None

    return StructuredTool.from_function(read_file, description="Read the text of a file.")


def _make(context: ToolContext) -> BaseTool:
    return read_file_tool(context.workspace)


TOOLS = (ToolSpec("read_file", "files", _make, touches="reads files of the workspace"),)
