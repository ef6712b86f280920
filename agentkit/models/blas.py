"""Give MLX on Linux a fast matrix product: load an OpenBLAS before the first `import mlx`.

The `mlx-cpu` wheel links the reference BLAS. Its symbols are looked up globally, so a library that is
already loaded with RTLD_GLOBAL wins. On a Mac nothing of this applies: MLX brings its own kernels.
"""

import ctypes
import ctypes.util
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

_state: "Blas | None" = None


@dataclass(frozen=True)
class Blas:
    """Which BLAS serves MLX here: `name`, the library's `path` (None if MLX's own) and a one-line `note`."""

    name: str
    path: str | None
    note: str

    @property
    def fast(self) -> bool:
        return self.name in ("openblas", "accelerate")


def use_fast_blas() -> Blas:
    """Load an OpenBLAS once, before MLX; call it ahead of every first `import mlx`.

    Returns what is in use. Never raises: without the library MLX still works, only slower.
    """
    global _state
    if _state is None:
        _state = _load()
    return _state


def _load() -> Blas:
    if sys.platform == "darwin":
        return Blas("accelerate", None, "MLX uses Metal and Accelerate")
    if "mlx.core" in sys.modules:
        return Blas("reference", None, "MLX was imported before agentkit.models, so OpenBLAS came too late: import agentkit.models first")
    for path in candidates():
        try:
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
        return Blas("openblas", path, "matrix products run on OpenBLAS")
    return Blas("reference", None, "no OpenBLAS found; install opencv-python or libopenblas0: prompts are read 10 to 30 times slower")


def candidates() -> list[str]:
    """Paths of OpenBLAS libraries to try, the one inside opencv-python first."""
    found = []
    spec = importlib.util.find_spec("cv2")
    if spec and spec.origin:
        site = Path(spec.origin).parent.parent
        for folder in ("opencv_python.libs", "opencv_python_headless.libs"):
            found += sorted(str(path) for path in (site / folder).glob("*openblas*"))
    system = ctypes.util.find_library("openblas")
    return found + ([system] if system else [])
