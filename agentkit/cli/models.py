"""`agentkit models`: the catalog, and which of it this machine can hold."""

import argparse
import json
import sys

from agentkit.models import catalog


def add_parser(commands) -> None:
    """Add `models` to an argparse subparsers object; parsed arguments carry `run`."""
    parser = commands.add_parser(
        "models",
        help="list the models and what this machine can hold",
        description="List the catalog: abilities, size, memory, whether it fits here and is on the disk.",
    )
    parser.add_argument("--json", action="store_true", help="JSON on stdout")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the table, or the same as JSON; returns 0. Looks at the disk and the memory only, never at the network."""
    memory = catalog.machine_memory()
    rows = [
        entry.as_dict() | {"fits": catalog.fits(entry, memory), "on_disk": catalog.on_disk(entry)}
        for entry in catalog.entries()
    ]
    found = {
        "memory_gb": round(memory / catalog.GIB, 1),
        "default": catalog.default_name(memory),
        "suggested": catalog.suggested_name(memory),
        "models": rows,
        "backends": list(catalog.BACKENDS),
    }
    print(json.dumps(found, indent=1, ensure_ascii=False)) if args.json else _show(found)
    return 0


def _show(found: dict) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 160  # a pipe has no width: keep one model on one line
    wide = console.width >= 120
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("model", "can", "download", "memory", "fits here", "on disk", *([""] if wide else [])):
        table.add_column(column, justify="right" if column in ("download", "memory") else "left", no_wrap=column != "")
    colours = {"fits": "green", "tight": "yellow", "too large": "red"}
    for row in found["models"]:
        fits = row["fits"]
        table.add_row(
            row["name"],
            " ".join(row["abilities"]),
            f"{row['weights_gb']:g} GB",
            f"{row['memory_gb']:g} GB",
            f"[{colours[fits]}]{fits}[/]",
            "yes" if row["on_disk"] else "no",
            *([row["note"]] if wide else []),
        )
    console.print(table)
    if not wide:
        console.print()
        for row in found["models"]:
            console.print(f"{row['name']}: {row['note']}")
    suggested = (
        ""
        if found["suggested"] == found["default"]
        else f"; suggested here: {found['suggested']} (downloads when you name it)"
    )
    slow = "" if sys.platform == "darwin" else " MLX has no GPU here, so the larger models answer slowly."
    console.print(
        f"\nThis machine has {found['memory_gb']:g} GB of memory.{slow} "
        f"Used when none is named: {found['default']}{suggested}.",
        soft_wrap=True,
    )
    console.print(
        "A folder, a hub repository organisation/model or a backend works as well: " + ", ".join(found["backends"]),
        soft_wrap=True,
        markup=False,
    )
