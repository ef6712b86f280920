"""On what machine, and beside what other work, figures were measured."""

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any


def describe() -> dict[str, Any]:
    """Processor, cores, load average of the last minute, BLAS and versions, as JSON-ready data."""
    from agentkit.models.blas import use_fast_blas

    blas = use_fast_blas()
    return {
        "cpu": _cpu(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "usable_cores": _usable_cores(),
        "load": round(os.getloadavg()[0], 2),
        "blas": blas.name,
        "blas_threads": os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS"),
        "python": platform.python_version(),
        "mlx": importlib.metadata.version("mlx"),
        "mlx_lm": importlib.metadata.version("mlx-lm"),
    }


def line(machine: dict[str, Any], load_after: float) -> str:
    """The machine in one line, with a warning where other work ran beside the measurement."""
    cores = f"{machine['cores']} cores"
    if machine["usable_cores"] != machine["cores"]:
        cores += f", {machine['usable_cores']} of them allowed"
    blas = machine["blas"] + (f", {machine['blas_threads']} thread" if machine["blas_threads"] else "")
    text = (f"{machine['cpu']} ({machine['system']}), {cores}; load {machine['load']:.1f} before and {load_after:.1f} "
            f"after; BLAS {blas}; MLX {machine['mlx']}, mlx-lm {machine['mlx_lm']}, Python {machine['python']}")
    if machine["load"] >= 0.5:
        text += "\nOther work was running: speeds in themselves are too low here, ratios hold."
    return text


def _usable_cores() -> int:
    # macOS has no affinity.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu() -> str:
    try:
        for row in Path("/proc/cpuinfo").read_text().splitlines():
            if row.startswith(("model name", "Model\t")):
                return row.partition(":")[2].strip()
        return platform.processor() or platform.machine()
    except OSError:
        got = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True)
        return got.stdout.strip() or platform.machine()
