"""`Recording`: one run's events in a file, one JSON object a line, to be opened and replayed anywhere.

The first line is the header: version of the format, versions of the libraries, what was asked of what, the graph. The
rest are the events, RunStarted first and RunEnded last.
"""

import contextlib
import json
import os
import uuid
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from agentkit.events import Event, RunEnded, RunStarted, from_dict
from agentkit.lab.show import LIBRARIES
from agentkit.models.errors import AgentkitError

FORMAT = 1


class Recording:
    """The events of one run, and the description of the graph that ran. `header` is what the first line holds."""

    def __init__(self, events: Sequence[Event], graph: dict | None = None, header: dict | None = None):
        self.events, self.graph = list(events), graph
        if not self.events or not isinstance(self.events[0], RunStarted):
            raise AgentkitError("a recording begins with RunStarted; these events do not")
        if header is None:
            began = self.events[0]
            header = {
                "agentkit_recording": FORMAT,
                "versions": {name: version(name) for name in LIBRARIES},
                "loop": began.loop,
                "model": began.model,
                "question": began.question,
                "events": len(self.events),
                "graph": graph,
            }
        self.header = header

    def save(self, path: Path | str) -> Path:
        """Write the file, whole or not at all. Returns its path."""
        path = Path(path)
        lines = [self.header, *(event.as_dict() for event in self.events)]
        data = "".join(f"{_line(line)}\n" for line in lines).encode()
        beside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
        try:
            with beside.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except OSError as error:
            raise AgentkitError(f"the recording cannot be written to {path}: {error.strerror or error}") from None
        finally:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
        return path

    @classmethod
    def open(cls, path: Path | str) -> "Recording":
        """Read a file that `save` wrote. AgentkitError names the file, the line and what is wrong with it."""
        path = Path(path)
        try:
            text = path.read_bytes().decode()
        except OSError as error:
            raise AgentkitError(f"the recording {path} cannot be read: {error.strerror or error}") from None
        except UnicodeDecodeError as error:
            number = error.object.count(b"\n", 0, error.start) + 1
            raise AgentkitError(f"{path}, line {number}: not text in UTF-8; the file is damaged") from None
        lines = text.split("\n")  # splitlines would also split at U+2028, which a model may write
        ended = lines.pop() == ""
        if not ended:
            number = text.count("\n") + 1
            raise AgentkitError(f"{path}, line {number}: the line has no end; the file was cut off")
        header = _header(path, lines)
        events = [_event(path, number, line) for number, line in enumerate(lines[1:], 2)]
        if len(events) != header["events"]:
            raise AgentkitError(
                f"{path}, line {len(lines)}: the file holds {len(events)} events, its header says {header['events']}; "
                "lines were lost or added"
            )
        if not events or not isinstance(events[0], RunStarted):
            raise AgentkitError(f"{path}, line 2: the first event is not RunStarted; lines were lost")
        return cls(events, header.get("graph"), header)

    @property
    def ended(self) -> RunEnded | None:
        """How the run ended; None if the recording was taken before that."""
        return self.events[-1] if isinstance(self.events[-1], RunEnded) else None

    @property
    def seconds(self) -> float:
        """From the first event to the last."""
        return self.events[-1].at - self.events[0].at

    def __repr__(self) -> str:
        header = self.header
        return (
            f"Recording(loop={header['loop']!r}, model={header['model']!r}, question={header['question']!r}, "
            f"events={len(self.events)})"
        )


def _line(data: dict) -> str:
    try:
        text = json.dumps(data, ensure_ascii=False, default=str)
        text.encode()
        return text
    except UnicodeEncodeError:  # half a surrogate pair
        return json.dumps(data, default=str)


def _header(path: Path, lines: list[str]) -> dict:
    try:
        header = json.loads(lines[0]) if lines else None
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or "agentkit_recording" not in header:
        raise AgentkitError(f"{path}, line 1: no header of a recording; agentkit's recordings begin with one")
    number = header["agentkit_recording"]
    if type(number) is not int or number < 1:
        raise AgentkitError(f"{path}, line 1: format {number!r} is not a version; the file is damaged")
    if number > FORMAT:
        raise AgentkitError(
            f"{path}, line 1: format {number} is newer than this agentkit reads ({FORMAT}); update agentkit"
        )
    kinds = {"loop": str, "model": str, "question": str, "events": int, "graph": dict | None, "versions": dict}
    for key, kind in kinds.items():
        if key not in header or not isinstance(header[key], kind) or isinstance(header[key], bool):
            raise AgentkitError(f"{path}, line 1: {key} is missing or of the wrong kind; the file is damaged")
    return header


def _event(path: Path, number: int, line: str) -> Event:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        told = getattr(error, "msg", "nested too deeply")
        raise AgentkitError(f"{path}, line {number}: not JSON ({told}); the file is damaged") from None
    try:
        return from_dict(data)
    except ValueError as error:
        raise AgentkitError(f"{path}, line {number}: {error}") from None

