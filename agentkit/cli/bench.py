"""`agentkit bench`: measure the promised figures on this machine; progress on stderr, results on stdout."""

import argparse
import json
import os

from agentkit.bench import figures
from agentkit.bench.figure import Figure


def add_parser(commands: "argparse._SubParsersAction") -> argparse.ArgumentParser:
    """Add `bench` to an argparse subparsers object; parsed arguments carry `run`."""
    parser = commands.add_parser(
        "bench",
        help="measure speed on this machine",
        description="Measure the promised figures: ratios of two sides that run in turn, with the quartiles of the "
                    "ratios beside the median. Takes some minutes; nothing else should run meanwhile.")
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"only these: {', '.join(figures.NAMES)}")
    parser.add_argument("--quick", action="store_true", help="fewer repeats: a first impression in a minute or two")
    parser.add_argument("--json", action="store_true", help="JSON on stdout, with every single measurement")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Carry out a parsed `bench` command; returns 0, also where a goal is missed. BadField for an unknown figure."""
    names = figures.chosen(args.only)
    from agentkit.bench import machine

    here = machine.describe()
    found = _measured(names, args.quick)
    after = round(os.getloadavg()[0], 2)
    if args.json:
        print(json.dumps({"machine": here | {"load_after": after}, "quick": args.quick,
                          "figures": [figure.as_dict() for figure in found]}, indent=1, ensure_ascii=False))
    else:
        _show(found, machine.line(here, after))
    return 0


def _measured(names: list[str], quick: bool) -> list[Figure]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    found: list[Figure] = []
    # Drawing takes a share of the processor that is being measured: seldom is enough.
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=1) as progress:
        for name in names:
            bar = progress.add_task(name, total=None)

            def tick(done: int, total: int, bar=bar) -> None:
                progress.update(bar, completed=done, total=total)

            found += figures.measure(name, quick, tick)
            progress.stop_task(bar)
    return found


def _show(found: list[Figure], machine: str) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 180  # a pipe has no width: keep one figure on one line
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("figure", "measured", "goal", "met", "how"):
        table.add_column(column, justify="right" if column in ("measured", "goal") else "left")
    for figure in found:
        met = {None: Text("-"), True: Text("yes", "green"), False: Text("no", "bold red")}[figure.met]
        goal = f"{'≥' if figure.higher else '≤'} {figure.goal:g}{_unit(figure)}"
        table.add_row(figure.title, _number(figure), goal, met, figure.how)
    console.print(table)
    console.print()
    console.print(Text(machine), soft_wrap=True)


def _number(figure: Figure) -> str:
    if figure.measured is None:
        return "-"
    text = _digits(figure.measured, figure.unit)
    if figure.spread:
        low, high = (_digits(value, figure.unit) for value in figure.spread)
        text += f" ({low} to {high})"
    return text


def _digits(value: float, unit: str) -> str:
    return f"{value:.3g}" + (f" {unit}" if unit not in ("x", "%") else f"{unit}")


def _unit(figure: Figure) -> str:
    return "" if not figure.unit else figure.unit if figure.unit in ("x", "%") else f" {figure.unit}"
