"""Faults that must turn `make test` red, each put into a copy of a notebook that is green.

The copies go through the very command of `make test`; only the time a cell may take is shorter where that is the point.
"""

import shutil
from pathlib import Path

import nbformat
import pytest

from tests.notebooks.lint import problems

PASSED = ["PASSED"] * 5


def cell(book, number):
    return [cell for cell in book.cells if cell.cell_type == "code"][number]


def changed_output(book):
    cell(book, 1).outputs[0]["text"] = "six times seven is 43\n"


def removed_output(book):
    cell(book, 1).outputs = []


def added_output(book):
    cell(book, 2).outputs = [nbformat.v4.new_output("stream", name="stdout", text="more\n")]


def changed_value(book):
    cell(book, 4).outputs[0]["data"]["text/plain"] = "[1, 3]"


def removed_kind_of_output(book):
    del cell(book, 3).outputs[0]["data"]["text/html"]


def failing_check(book):
    assert cell(book, 3).outputs[0]["data"]["text/plain"].startswith("Right:")
    cell(book, 2).source = "answer = 41"


def exception(book):
    cell(book, 2).source += "\nraise RuntimeError('no tool of that name')"


def warning_on_stderr(book):
    cell(book, 1).source += "\nimport sys; print('deprecated', file=sys.stderr)"


def network(book):
    cell(book, 2).source += "\nimport urllib.request; urllib.request.urlopen('http://192.0.2.1/', timeout=1)"


# The fault, and what becomes of the five cells.
FAULTS = {
    changed_output: ["PASSED", "FAILED", "PASSED", "PASSED", "PASSED"],
    removed_output: ["PASSED", "FAILED", "PASSED", "PASSED", "PASSED"],
    added_output: ["PASSED", "PASSED", "FAILED", "PASSED", "PASSED"],
    changed_value: ["PASSED", "PASSED", "PASSED", "PASSED", "FAILED"],
    removed_kind_of_output: ["PASSED", "PASSED", "PASSED", "FAILED", "PASSED"],
    failing_check: ["PASSED", "PASSED", "PASSED", "FAILED", "PASSED"],
    warning_on_stderr: ["PASSED", "FAILED", "PASSED", "PASSED", "PASSED"],
    exception: ["PASSED", "PASSED", "FAILED", "SKIPPED", "SKIPPED"],
    network: ["PASSED", "PASSED", "FAILED", "SKIPPED", "SKIPPED"],
}


def copy(small, folder, fault):
    book = nbformat.read(small, as_version=4)
    fault(book)
    path = folder / f"{fault.__name__}.ipynb"
    nbformat.write(book, path)
    return path


@pytest.fixture(scope="module")
def faulty(small, judged, tmp_path_factory):
    """One run over all faulty copies and, among them, one that nobody touched."""
    folder = tmp_path_factory.mktemp("faulty")
    paths = [copy(small, folder, fault) for fault in FAULTS]
    return judged([*paths, Path(shutil.copy(small, folder / "untouched.ipynb"))])


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_fault_turns_the_run_red(faulty, fault):
    assert faulty.code == 1
    assert faulty.cells[fault.__name__] == FAULTS[fault]


def test_the_neighbours_of_a_fault_are_judged_by_themselves(faulty):
    assert faulty.cells["untouched"] == PASSED, faulty.text


def test_untouched_copy_is_green(small, judged):
    run = judged([small])
    assert (run.code, run.cells) == (0, {"small": PASSED}), run.text


def test_cell_over_its_time_turns_the_run_red(judged, tmp_path):
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("import time\ntime.sleep(100)", execution_count=1),
                                           nbformat.v4.new_code_cell("1", execution_count=2)])
    nbformat.write(book, tmp_path / "slow.ipynb")
    run = judged([tmp_path / "slow.ipynb"], "--nbval-cell-timeout=3")
    assert (run.code, run.cells) == (1, {"slow": ["FAILED", "SKIPPED"]})
    assert "Timeout of 3 seconds exceeded" in run.text


def test_cell_that_was_never_executed_is_found_by_lint(small, tmp_path):
    def forget(book):
        cell(book, 4).execution_count, cell(book, 4).outputs = None, []

    assert problems(small) == []
    assert problems(copy(small, tmp_path, forget)) == ["cell 5: never executed, so nothing compares its output"]


def test_a_notebook_stays_in_one_worker_and_both_work(faulty):
    """All cells of a notebook share a kernel, so the names they bind are there only if one worker ran them all."""
    assert faulty.workers["untouched"] in ({"gw0"}, {"gw1"})
    assert set.union(*faulty.workers.values()) == {"gw0", "gw1"}
