"""A small but real notebook, made by `make lessons` itself, and the command by which `make test` judges notebooks."""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from nbformat import v4

from tests.notebooks.execute import execute
from tests.notebooks.lint import ROOT

CELLS = [
    v4.new_markdown_cell("# 90 · Small\n\n**Goal.** To be tested. **Time.** None."),
    v4.new_code_cell("import time\n\nfrom agentkit import __version__\nfrom agentkit.lab.verdict import not_yet, right\n\n__version__"),
    v4.new_code_cell('print("six times seven is", 6 * 7)'),
    v4.new_code_cell("answer = 42"),
    v4.new_code_cell('right("Six sevens.") if answer == 42 else not_yet("Multiply.")'),
    v4.new_code_cell("time.sleep(0)\n[1, 2]"),
]


@dataclass
class Run:
    """What a run of the command came to: exit code, its text; by notebook, each code cell's outcome and who ran them."""

    code: int
    text: str
    cells: dict[str, list[str]]
    workers: dict[str, set[str]]


@pytest.fixture(scope="session")
def small(tmp_path_factory) -> Path:
    """A notebook of five code cells (a version, a print, an answer, its check, a value) with its outputs stored."""
    path = tmp_path_factory.mktemp("small") / "small.ipynb"
    nbformat.write(v4.new_notebook(cells=CELLS), path)
    execute(path)
    return path


@pytest.fixture(scope="session")
def make_test_command() -> list[str]:
    """The pytest command of `make test`, word for word as make would run it, without what it is to test."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "GNUMAKEFLAGS"))}
    told = subprocess.run(["make", "-n", "test", "TESTS="], cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    [line] = [line for line in told.stdout.splitlines() if " -m pytest " in line]
    words = shlex.split(line)
    return [sys.executable, *words[words.index("-m"):]]


@pytest.fixture(scope="session")
def judged(make_test_command, tmp_path_factory):
    """judged(paths, *options) -> Run: these notebooks of one folder under the command of `make test`.

    The folder stands for the project's: pytest gives files outside of its root no name, and xdist goes by the name.
    """

    def run(paths, *options) -> Run:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "CI"))}
        root = ["-c", str(ROOT / "pyproject.toml"), f"--rootdir={paths[0].parent}"]
        done = subprocess.run([*make_test_command, *map(str, paths), "-v", *root, *options], cwd=ROOT, env=environment,
                              capture_output=True, text=True, timeout=600)
        cells, workers = {path.stem: {} for path in paths}, {path.stem: set() for path in paths}
        for worker, outcome, name, number in re.findall(r"^\[(gw\d)\].* ([A-Z]+) (?:\S*/)?(\w+)\W+ipynb::Cell (\d+)", done.stdout, re.MULTILINE):
            cells[name][int(number)] = outcome
            workers[name].add(worker)
        told = {name: [found[number] for number in sorted(found)] for name, found in cells.items()}
        return Run(done.returncode, done.stdout + done.stderr, told, workers)

    return run
