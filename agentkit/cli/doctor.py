"""`agentkit doctor`: what this machine has, what is missing, who would use it and how to install it."""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
import time

from agentkit import components

WITHOUT_BLAS = "MLX would use its reference BLAS: matrix products, and so reading a prompt, 10 to 30 times slower"
PACKAGES = ("mlx", "mlx-lm", "mlx-vlm", "langgraph", "langchain-core", "jupyterlab")


def add_parser(commands: "argparse._SubParsersAction") -> argparse.ArgumentParser:
    """Add `doctor` to an argparse subparsers object; parsed arguments carry `run`."""
    parser = commands.add_parser("doctor", help="what this machine has and what is missing",
                                 description="Look at Python, the libraries, the BLAS, the bundled model and the "
                                             "system components. Nothing is changed unless --install is given.")
    parser.add_argument("--json", action="store_true", help="the findings as one JSON object on stdout")
    parser.add_argument("--install", action="store_true",
                        help="install the system components needed now (root with apt), instead of looking around")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Carry out a parsed `doctor` command; returns 0. Raises `AgentkitError` where `--install` leaves a gap."""
    if args.install:
        if missing := components.missing_now():
            components.install(missing)
        print("system components needed now: all present", file=sys.stderr)
        return 0
    findings = examine()
    if args.json:
        print(json.dumps(findings, indent=1, ensure_ascii=False))
    else:
        _show(findings)
    return 0


def examine() -> dict:
    """Everything `agentkit doctor` reports, as JSON-ready data; nothing is downloaded and no missing part raises."""
    import psutil

    memory = psutil.virtual_memory()
    return {
        "python": {"version": platform.python_version(), "executable": sys.executable},
        "platform": {"system": platform.platform(), "machine": platform.machine(), "cores": os.cpu_count()},
        "memory_gb": {"total": round(memory.total / 2**30, 1), "available": round(memory.available / 2**30, 1)},
        "packages": {name: _version(name) for name in PACKAGES},
        "torch": importlib.util.find_spec("torch") is not None,
        "blas": _blas(),
        "bundled": _bundled(),
        "components": [_component(part) for part in components.COMPONENTS],
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _blas() -> dict:
    from agentkit.models.blas import use_fast_blas

    blas = use_fast_blas()
    found = {"name": blas.name, "path": blas.path, "fast": blas.fast, "note": blas.note}
    try:
        return found | {"gflops": _gflops()}
    except ImportError as error:
        return found | {"gflops": None, "note": f"MLX cannot be imported: {error}"}


def _gflops(size: int = 640) -> float:
    """Best speed of a float32 matrix product in 10^9 operations a second, as measured now through MLX."""
    import mlx.core as mx

    matrix = mx.random.normal((size, size))
    mx.eval(matrix)
    times, end = [], time.perf_counter() + 0.3
    while len(times) < 5 or time.perf_counter() < end:  # a busy machine spoils a single try
        start = time.perf_counter()
        mx.eval(matrix @ matrix)
        times.append(time.perf_counter() - start)
    return round(2 * size**3 / min(times) / 1e9, 1)


def _bundled() -> dict:
    from agentkit.models.bundled import adapter_file, folder_for, gguf_at_hand

    adapter = adapter_file()
    folder = folder_for(adapter)
    weights = gguf_at_hand()
    return {
        "weights": weights and str(weights),
        "adapter": adapter and str(adapter),
        "converted": str(folder) if (folder / "config.json").is_file() else None,
    }


def _component(part: components.Component) -> dict:
    return {
        "name": part.name,
        "state": part.lack() or "ready",
        "version": part.version(),
        "needed": "now" if part.now else "later",
        "used_by": part.used_by,
        "install": {"debian": part.install_command("linux"), "macos": part.install_command("darwin")},
    }


def _show(found: dict) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    for name, text in _facts(found):
        console.print(f"[bold]{name:<14}[/] {text}", soft_wrap=True)
    console.print()
    table = Table("component", "state", "needed", "used by", box=None, pad_edge=False, header_style="bold")
    for row in found["components"]:
        colour = "green" if row["state"] == "ready" else "red" if row["needed"] == "now" else "yellow"
        state = f"[{colour}]{row['state']}[/] {row['version'] or ''}"
        table.add_row(row["name"], state, row["needed"], row["used_by"])
    console.print(table)
    console.print("\n[bold]to install[/]" + ("" if sys.platform == "darwin" else "  (as root; other systems have the like)"))
    for row in found["components"]:
        command = row["install"]["macos" if sys.platform == "darwin" else "debian"]
        console.print(f"{row['name']:<14} {command}", soft_wrap=True)


def _facts(found: dict) -> list[tuple[str, str]]:
    blas, bundled = found["blas"], found["bundled"]
    speed = f"{blas['gflops']} GFLOP/s in float32, measured now" if blas["gflops"] else "not measured"
    return [
        ("Python", "{version}  {executable}".format(**found["python"])),
        ("machine", "{system}, {machine}, {cores} cores".format(**found["platform"])),
        ("memory", "{total} GB, {available} GB of it available".format(**found["memory_gb"])),
        *((name, version or "[red]not installed[/]: pip install --no-deps -r requirements.lock")
          for name, version in found["packages"].items()),
        ("torch", "[yellow]installed, though nothing here uses it[/]" if found["torch"] else "absent, as it should be"),
        ("BLAS", f"{blas['name']}: {blas['note']} ({speed})"),
        *([("without it", WITHOUT_BLAS)] if blas["name"] == "openblas" else []),
        ("weights", bundled["weights"] or "not here: fetched with pip at first use (98 MB)"),
        ("adapter", bundled["adapter"] or "[yellow]none[/]: the bundled model will not call tools"),
        ("converted", bundled["converted"] or "not yet: made at first use, in a few seconds"),
    ]
