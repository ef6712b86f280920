"""OpenBLAS is there before MLX, whichever of our modules a program imports first."""

import subprocess
import sys

import pytest

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="MLX brings its own kernels elsewhere")


def blas_after(code):
    asked = f"{code}\nfrom agentkit.models.blas import use_fast_blas\nprint(use_fast_blas().name, '|', use_fast_blas().note)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    return done.stdout.strip().split(" | ")


@LINUX
@pytest.mark.parametrize("module", ["agentkit.models.engine", "agentkit.models.sampling", "agentkit.models.constrain",
                                    "agentkit.training.lora", "agentkit.training.train", "agentkit.models.chat"])
def test_any_module_that_imports_mlx_finds_the_fast_library(module):
    assert blas_after(f"import {module}")[0] == "openblas"


@LINUX
def test_mlx_first_is_said_with_the_remedy():
    name, note = blas_after("import mlx.core")
    assert name == "reference" and "import agentkit.models first" in note
