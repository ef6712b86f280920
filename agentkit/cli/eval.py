"""`agentkit eval`: put the held-out tool-calling set or BFCL to a model; progress on stderr, results on stdout."""

import argparse
import dataclasses
import json
from collections.abc import Callable

from agentkit.evals.bfcl import CATEGORIES, load_questions, score_bfcl
from agentkit.evals.report import Progress, Report
from agentkit.evals.tool_calls import KINDS, load_cases, score
from agentkit.models.catalog import profile_for
from agentkit.models.errors import BadField
from agentkit.models.profile import GenerationProfile

DEFAULT_MODEL = "bundled"


def add_parser(subparsers: "argparse._SubParsersAction") -> argparse.ArgumentParser:
    """Add `eval` with `tools` and `bfcl` to an argparse subparsers object; parsed arguments carry `run`."""
    parser = subparsers.add_parser("eval", help="measure how well a model calls tools")
    sets = parser.add_subparsers(dest="eval_set", required=True, metavar="{tools,bfcl}")
    tools = sets.add_parser("tools", help="agentkit's own held-out cases (data/evals)")
    tools.add_argument("--kind", metavar="K", help=f"only this kind: {', '.join(KINDS)}")
    bfcl = sets.add_parser("bfcl", help="Berkeley Function Calling Leaderboard; needs: pip install --no-deps bfcl-eval")
    bfcl.add_argument("--category", metavar="C", default=CATEGORIES[0],
                      help=f"one of {', '.join(CATEGORIES)} (default {CATEGORIES[0]})")
    for sub in (tools, bfcl):
        sub.add_argument("--model", metavar="M", default=DEFAULT_MODEL, help=f"default {DEFAULT_MODEL}")
        sub.add_argument("--limit", metavar="N", help="only the first N cases")
        sub.add_argument("--yes", action="store_true", help="load a model that needs more memory than this machine has")
        sub.add_argument("--profile", metavar="KEY=VALUE", action="append", default=[],
                         help="a field of the generation profile, like constrained=false (repeatable)")
        sub.add_argument("--json", action="store_true", help="JSON on stdout, with every failed case and its reason")
        sub.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Carry out a parsed `eval` command; returns the exit code 0. Raises `AgentkitError` for bad input, before any
    model is loaded."""
    limit = _limit(args.limit)
    profile = GenerationProfile.from_text(args.profile, profile_for(args.model))
    if args.eval_set == "bfcl":
        load_questions(args.category, limit)
        report = _measured(args, profile, lambda model, tick: score_bfcl(model, args.category, limit, tick))
    else:
        cases = _cases(args.kind)[:limit]
        report = _measured(args, profile, lambda model, tick: score(model, cases, tick))
    if args.json:
        print(json.dumps({"model": args.model, "profile": dataclasses.asdict(profile), **report.as_dict(failures=True)}, indent=1, ensure_ascii=False))
    else:
        print(f"{report.name}, model {args.model}\n{report.table()}")
    return 0


def _measured(args: argparse.Namespace, profile: GenerationProfile, evaluate: Callable[[object, Progress], Report]) -> Report:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    from agentkit.models import load_model

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task(f"loading {args.model}", total=None)
        model = load_model(args.model, profile=profile, confirm=args.yes)
        bars.update(task, description="measuring")
        return evaluate(model, lambda done, total: bars.update(task, completed=done, total=total))


def _cases(kind: str | None) -> list:
    if kind is not None and kind not in KINDS:
        raise BadField(f"--kind is {kind!r}; choose one of {', '.join(KINDS)}")
    return [case for case in load_cases() if kind in (None, case.kind)]


def _limit(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        limit = int(text)
    except ValueError:
        limit = 0
    if limit < 1:
        raise BadField(f"--limit is {text!r}; it must be a whole number of 1 or more")
    return limit
