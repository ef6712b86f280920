"""All figures by name: what `agentkit bench` can measure, in the order it does so."""

import importlib

from agentkit.bench.figure import Figure, Tick
from agentkit.models.errors import AgentkitError, BadField

# Cheap ones first. Each module declares its `FIGURES` and has `measure(quick, tick)`, which gives them back measured.
_HOMES = {"import": "imports", "tests": "suite", "loops": "loops", "threads": "threads", "kills": "kills",
          "decode": "decode", "prefill": "prefill", "prefix": "prefix", "constrained": "constrained"}
NAMES = tuple(_HOMES)


def chosen(only: list[str] | None) -> list[str]:
    """The names to measure, each once and in the usual order; BadField for an unknown one."""
    for name in only or ():
        if name not in _HOMES:
            raise BadField(f"figure {name!r} is unknown; known are {', '.join(NAMES)}")
    return [name for name in NAMES if not only or name in only]


def measure(name: str, quick: bool, tick: Tick) -> list[Figure]:
    """The figures of one measurement. What agentkit cannot do here becomes a figure that says why, so that the others
    are still measured."""
    home = importlib.import_module(f"agentkit.bench.{_HOMES[name]}")
    try:
        return home.measure(quick, tick)
    except AgentkitError as error:
        return [figure.found(None, f"not measured: {error}") for figure in home.FIGURES]
