"""`agentkit train tools`: train the adapter that teaches the bundled model to call tools."""

import argparse
import signal
import threading
from dataclasses import fields
from pathlib import Path


def add_parser(commands) -> None:
    """Add `train` to an argparse subparsers object; parsed arguments carry `run`."""
    parser = commands.add_parser("train", help="train the bundled model's tool-calling adapter (resumable)",
                                 description="Train a LoRA adapter on the dialogues of data/finetune. Ctrl-C saves and stops; the same command goes on.")
    parser.add_argument("what", choices=["tools"])
    parser.add_argument("--out", type=Path, default=Path("runs/tools"), help="folder for adapter, state and log (default: %(default)s)")
    parser.add_argument("--data", type=Path, default=Path("data/finetune"), help="the fine-tuning set (default: %(default)s)")
    parser.add_argument("--fresh", action="store_true", help="start anew even if the folder holds a state")
    parser.add_argument("--init-from", type=Path, help="start from this adapter file instead of a fresh one")
    from_recipe = {"steps": int, "rank": int, "learning_rate": float, "dialogues": int, "seed": int, "save_every": int}
    for name, kind in from_recipe.items():
        parser.add_argument("--" + name.replace("_", "-"), type=kind, help=argparse.SUPPRESS if name == "save_every" else f"recipe: {name}")
    parser.set_defaults(run=run)


def run(args) -> int:
    """Carry out a parsed `train` command; returns 0. Raises `AgentkitError` where the extra `train` is not installed."""
    from agentkit.models.errors import AgentkitError

    try:
        from agentkit.training.train import Recipe, train
    except ModuleNotFoundError as error:
        raise AgentkitError(f"training needs {error.name}: pip install 'agentkit[train]'") from None
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from agentkit.models.bundled import bundled_folder

    chosen = {f.name: getattr(args, f.name) for f in fields(Recipe) if getattr(args, f.name, None) is not None}
    recipe = Recipe(**chosen)
    stop = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task("training", total=recipe.steps)

        def show(row):
            progress.update(bar, completed=row["step"], description=f"loss {row['loss']:.3f}" + (f", validation {row['validation']:.3f}" if "validation" in row else ""))

        last = train(args.out, bundled_folder(None), args.data, recipe, resume=not args.fresh, init_from=args.init_from, on_step=show, stop=stop)
    print(f"step {last['step']} of {recipe.steps}; adapter in {args.out / 'adapter.safetensors'}")
    return 0
