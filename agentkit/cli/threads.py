"""`agentkit threads`: look at a store of threads, check it, repair it, move threads in and out."""

import argparse
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from agentkit.models.errors import AgentkitError, BadField


def add_parser(commands: "argparse._SubParsersAction") -> None:
    """Add `threads` to an argparse subparsers object; parsed arguments carry `run`."""
    parser = commands.add_parser(
        "threads",
        help="list, check, repair and move stored conversations",
        description="Look after a store of threads that an AgentkitSaver keeps. The store is a folder, sqlite:FILE or "
                    "s3://bucket/prefix; by default $AGENTKIT_STORE, else the folder `threads` among the user's data.",
    )
    parser.add_argument("--store", metavar="ADDRESS", help="which store")
    parser.add_argument("--json", action="store_true", help="JSON on stdout")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("list", help="all threads, newest first")
    show = actions.add_parser("show", help="one thread: its checkpoints and what it holds")
    show.add_argument("thread")
    show.add_argument("--limit", type=int, default=10, help="how many checkpoints (default %(default)s)")
    actions.add_parser("verify", help="read every byte and compare checksums; exit code 1 if something is damaged")
    export = actions.add_parser("export", help="one thread as a file")
    export.add_argument("thread")
    export.add_argument("file")
    bring = actions.add_parser("import", help="bring in an exported thread, or all threads of a SqliteSaver's file")
    bring.add_argument("file")
    bring.add_argument("--as", dest="name", metavar="NAME", help="under another name (exported files only)")
    prune = actions.add_parser("prune", help="keep only the newest state of threads")
    prune.add_argument("thread", nargs="+")
    prune.add_argument("--delete", action="store_true", help="remove the threads altogether")
    move = actions.add_parser("migrate", help="bring threads to a new schema version now instead of when next opened")
    move.add_argument("--with", dest="code", metavar="FILE.py", required=True, help="a file with SCHEMA and MIGRATIONS")
    move.add_argument("--dry-run", action="store_true", help="only say what would change")
    mend = actions.add_parser("repair", help="what can be saved of damaged threads")
    mend.add_argument("--yes", action="store_true", help="put the last good revision in place")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Carry out a parsed `threads` command; 0, or 1 where `verify` found damage."""
    from agentkit.checkpoints.saver import AgentkitSaver
    from agentkit.checkpoints.threads import store_address

    options: dict[str, Any] = {}
    if args.action == "migrate":
        options = _code(args.code)
    saver = AgentkitSaver(args.store or store_address(), **options)
    try:
        return ACTIONS[args.action](saver, args)
    finally:
        saver.store.close()


def _list(saver: Any, args: argparse.Namespace) -> int:
    rows = []
    for name in saver.threads():
        thread = saver.thread(name)
        tip = thread.read(lambda log: log.newest(""))
        got = saver.get_tuple(_place(name)) if tip else None
        rows.append({"thread": name, "revision": thread.revision, "changed": got.checkpoint["ts"] if got else "",
                     "messages": len(got.checkpoint["channel_values"].get("messages", [])) if got else 0})
    rows.sort(key=lambda row: row["changed"], reverse=True)
    _print(args, rows, ("thread", "changed", "messages", "revision"))
    return 0


def _show(saver: Any, args: argparse.Namespace) -> int:
    found = list(saver.list(_place(args.thread), limit=args.limit))
    if not found:
        raise AgentkitError(f"thread {args.thread!r} does not exist in {saver.store.name}; `agentkit threads list` shows all")
    sides = saver.thread(args.thread).read(
        lambda log: {record.id: record.landed for record in log.newest_first("") if record.side is not None})
    rows = []
    for item in found:
        values = item.checkpoint["channel_values"]
        id = item.checkpoint["id"]
        waits = sorted(name.removeprefix("branch:to:") for name in values if name.startswith("branch:to:"))
        rows.append({"checkpoint": id, "step": item.metadata.get("step"), "source": item.metadata.get("source"),
                     "line": "main" if id not in sides else "side, merged" if sides[id] else "side",
                     "next": ", ".join(waits), "messages": len(values.get("messages", []))})
    _print(args, rows, ("checkpoint", "step", "source", "line", "next", "messages"))
    return 0


def _verify(saver: Any, args: argparse.Namespace) -> int:
    from agentkit.checkpoints.upkeep import verify

    with _progress("verify") as tick:
        found = list(verify(saver, tick))
    rows = [{**vars(item), "problems": list(item.problems)} for item in found]
    _print(args, rows, ("thread", "revision", "checkpoints", "bytes", "orphans", "problems"))
    damaged = [item for item in found if item.problems]
    print(f"{len(found)} threads, {len(damaged)} damaged", file=sys.stderr)
    return 1 if damaged else 0


def _export(saver: Any, args: argparse.Namespace) -> int:
    from agentkit.checkpoints.upkeep import export_thread

    data = export_thread(saver, args.thread)
    try:
        with open(args.file, "xb") as file:
            file.write(data)
    except OSError as error:
        raise AgentkitError(f"{args.file} cannot be written: {error.strerror}") from None
    _print(args, [{"thread": args.thread, "file": args.file, "bytes": len(data)}], ("thread", "file", "bytes"))
    return 0


def _import(saver: Any, args: argparse.Namespace) -> int:
    from agentkit.checkpoints.upkeep import import_sqlite, import_thread

    try:
        start = Path(args.file).open("rb").read(16)
    except OSError as error:
        raise AgentkitError(f"{args.file} cannot be read: {error.strerror}") from None
    if start.startswith(b"SQLite format 3"):
        if args.name:
            raise BadField("--as names one thread, and this file holds all threads of a SqliteSaver; leave it out")
        with _progress("import") as tick:
            names = import_sqlite(saver, Path(args.file), tick)
    else:
        names = [import_thread(saver, Path(args.file).read_bytes(), args.name, args.file)]
    _print(args, [{"thread": name} for name in names], ("thread",))
    return 0


def _prune(saver: Any, args: argparse.Namespace) -> int:
    known = set(saver.threads())
    if unknown := [name for name in args.thread if name not in known]:
        raise AgentkitError(f"thread {unknown[0]!r} does not exist in {saver.store.name}; nothing was changed")
    saver.prune(args.thread, strategy="delete" if args.delete else "keep_latest")
    return 0


def _migrate(saver: Any, args: argparse.Namespace) -> int:
    from agentkit.checkpoints.upkeep import migrate

    rows = []
    for name in saver.threads():
        rows += migrate(saver, name, dry=args.dry_run)
    _print(args, rows, ("thread", "from", "to", "new", "gone", "changed"))
    return 0


def _repair(saver: Any, args: argparse.Namespace) -> int:
    from agentkit.checkpoints.upkeep import repair, verify

    rows = []
    for item in verify(saver):
        if item.problems:
            rows.append({"thread": item.thread, "problem": item.problems[0], "repair": repair(saver, item.key, args.yes)})
    _print(args, rows, ("thread", "problem", "repair"))
    if rows and not args.yes:
        print("nothing was changed; --yes puts these revisions in place", file=sys.stderr)
    return 0


ACTIONS = {"list": _list, "show": _show, "verify": _verify, "export": _export, "import": _import, "prune": _prune,
           "migrate": _migrate, "repair": _repair}


def _place(name: str) -> dict:
    return {"configurable": {"thread_id": name, "checkpoint_ns": ""}}


def _code(path: str) -> dict[str, Any]:
    """SCHEMA and MIGRATIONS of a Python file of the user's."""
    if not Path(path).is_file():
        raise BadField(f"--with {path}: there is no such file; it defines SCHEMA and MIGRATIONS")
    spec = importlib.util.spec_from_file_location("agentkit_user_migrations", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        return {"schema": module.SCHEMA, "migrations": module.MIGRATIONS, "allow": getattr(module, "ALLOW", ())}
    except AttributeError as error:
        raise BadField(f"--with {path}: {error}; it has to define SCHEMA (a number) and MIGRATIONS (a list)") from None


class _progress:
    """A bar on stderr for work of unknown length."""

    def __init__(self, title: str):
        self.title = title

    def __enter__(self):
        from rich.console import Console
        from rich.progress import Progress

        self.bar = Progress(console=Console(stderr=True), transient=True).__enter__()
        task = self.bar.add_task(self.title, total=None)
        return lambda done, total: self.bar.update(task, completed=done, total=total)

    def __exit__(self, *problem):
        self.bar.__exit__(*problem)


def _print(args: argparse.Namespace, rows: list[dict], columns: tuple[str, ...]) -> None:
    if args.json:
        print(json.dumps(rows, indent=1, ensure_ascii=False, default=str))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200  # a pipe has no width: keep one thread on one line
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*(Text("\n".join(row[c]) if isinstance(row[c], list) else str(row[c])) for c in columns))
    console.print(table)


