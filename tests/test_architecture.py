"""The house stands: imports run down the floors only, modules stay small and documented, starting is cheap."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "agentkit"
MODULES = sorted(PACKAGE.rglob("*.py"))

# From the ground up. A room may import rooms on lower floors, never sideways and never up.
FLOORS = (
    {"", "events", "cancel"},
    {"models"},
    {"components"},
    {"sandbox"},
    {"checkpoints", "memory"},
    {"tools"},
    {"evals", "training", "loops"},
    {"lab", "bench"},
    {"cli"},
)
# Stricter than their floor.
ONLY = {"evals": {"models"}, "training": {"models"}}
# What every room may use.
COMMON = ("agentkit.__version__", "agentkit.models.errors", "agentkit.events")


def room(module: str) -> str:
    """agentkit.models.blas -> models; the package itself -> ''."""
    return (module.split(".") + [""])[1]


def floor(name: str) -> int | None:
    return next((number for number, rooms in enumerate(FLOORS) if name in rooms), None)


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(source: str, module: str, is_package: bool = False) -> set[str]:
    """Full dotted names of everything imported from agentkit, at the top or inside functions."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                kept = len(parts) - node.level + is_package
                base = ".".join(parts[:kept] + ([base] if base else []))
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return {name for name in found if name.split(".")[0] == "agentkit"}


def breaches(source: str, module: str, is_package: bool = False) -> list[str]:
    """The imports of this module that go up or sideways."""
    here = room(module)
    below = {name for rooms in FLOORS[:floor(here) or 0] for name in rooms}
    allowed = {here, ""} | (below & ONLY[here] if here in ONLY else below)
    return [f"{module} imports {name}" for name in sorted(imports(source, module, is_package))
            if room(name) not in allowed and not f"{name}.".startswith(tuple(f"{common}." for common in COMMON))]


def test_every_room_has_a_floor():
    rooms = {room(name_of(path)) for path in MODULES}
    assert {name for name in rooms if floor(name) is None} == set()


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_run_down(path):
    assert breaches(path.read_text(), name_of(path), path.name == "__init__.py") == []


@pytest.mark.parametrize(("module", "source", "wrong"), [
    ("agentkit.models.x", "from agentkit.tools import calculator", 1),
    ("agentkit.models.x", "def f():\n    import agentkit.loops.lite", 1),
    ("agentkit.tools.x", "from ..loops.state import State", 1),
    ("agentkit.evals.x", "from agentkit.tools.base import Tool", 1),
    ("agentkit.loops.x", "from agentkit.training import lora", 1),
    ("agentkit", "from agentkit import models", 1),
    ("agentkit.tools.x", "from ..models.chat import LocalChatModel\nfrom . import base", 0),
    ("agentkit.events", "from agentkit.models.errors import AgentkitError", 0),
    ("agentkit.cli.x", "from agentkit import __version__\nfrom agentkit.lab import panels\nimport agentkit", 0),
])
def test_rule_itself(module, source, wrong):
    assert len(breaches(source, module)) == wrong


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_module_holds_one_idea(path):
    assert len(path.read_text().splitlines()) < 400, "a module that grows past 400 lines holds two ideas"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_what_is_public_says_what_it_is_for(path):
    tree = ast.parse(path.read_text())
    public = [node for node in tree.body
              if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_")]
    assert [node.name for node in public if not ast.get_docstring(node)] == []
    assert ast.get_docstring(tree), "the module says in one line what it is for"


@pytest.mark.parametrize("module", ["agentkit", "agentkit.cli.main", "agentkit.models"])
def test_starting_loads_no_model_library(module):
    code = f"import sys, {module}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    heavy = ("mlx", "langchain", "langgraph", "transformers", "numpy")
    assert [name for name in done.stdout.split() if name.startswith(heavy)] == []


def lock_lines() -> list[str]:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def test_lock_holds_versions_and_markers_only():
    assert [line for line in lock_lines() if not re.fullmatch(r"[a-z0-9.-]+==[a-z0-9.+!]+( ; .+)?", line)] == []
    assert "://" not in (ROOT / "requirements.lock").read_text()


def test_lock_has_no_torch_and_one_opencv():
    names = [line.split("==")[0] for line in lock_lines()]
    assert [name for name in names if "torch" in name] == []
    assert [name for name in names if name.startswith("opencv")] == ["opencv-python"]
    assert len(names) == len(set(names)), "one version of each, on every Python"


def test_lock_answers_to_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = project["dependencies"] + [need for extra in extras.values() for need in extra]
    locked = dict(line.split(" ;")[0].split("==") for line in lock_lines())
    unmet = [need for need in map(Requirement, wanted)
             if not need.specifier.contains(locked.get(canonicalize_name(need.name), "0"), prereleases=True)]
    assert unmet == [], "run `make lock`"
