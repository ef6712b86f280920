"""`make lessons`: outputs of one origin, the same each time, and a failure that names its cell and stops no one else."""

import re

import nbformat
import pytest
from nbformat import v4

from tests.notebooks.execute import Failed, execute, main
from tests.notebooks.origin import origin_problems


@pytest.fixture
def notebook(tmp_path):
    def make(name, *sources, tags=()):
        path = tmp_path / name
        cells = [v4.new_markdown_cell("# Title"), *(v4.new_code_cell(source, metadata={"tags": list(tags)}) for source in sources)]
        nbformat.write(v4.new_notebook(cells=cells), path)
        return path

    return make


def test_twice_gives_the_same_bytes(notebook):
    path = notebook("widgets.ipynb", "import ipywidgets\nipywidgets.IntSlider(3)", "for n in range(500): print(n)",
                    "import matplotlib.pyplot as plt\nfigure, axes = plt.subplots()\n_ = axes.plot([1, 2])")
    assert execute(path) == 3
    first = path.read_bytes()
    execute(path)
    assert path.read_bytes() == first


def test_failing_notebook_is_named_and_left_and_the_others_go_on(notebook, capsys):
    failing = notebook("a.ipynb", "x = 1", "def f():\n    raise KeyError('lid')\n\nf()")
    asleep = notebook("b.ipynb", "import time\ntime.sleep(60)")
    sound = notebook("c.ipynb", "x = 1\nx")
    before = failing.read_bytes(), asleep.read_bytes()
    assert main([str(failing), str(asleep), str(sound), "--timeout", "4"]) == 1
    told = capsys.readouterr().out
    assert re.search(r"\[1/3\] \S*a\.ipynb FAILED\n      cell 2: KeyError: 'lid' \(line 4: f\(\)\)\n", told)
    assert re.search(r"\[2/3\] \S*b\.ipynb FAILED\n      cell 1: not over after 4 s\n", told)
    assert re.search(r"\[3/3\] \S*c\.ipynb 1 code cell, [\d.]+ s\n2 of 3 failed", told)
    assert (failing.read_bytes(), asleep.read_bytes()) == before
    assert nbformat.read(sound, as_version=4).cells[1].outputs[0].data["text/plain"] == "1"


def test_an_error_that_is_meant_goes_on(notebook):
    path = notebook("meant.ipynb", "1 / 0", tags=["raises-exception"])
    execute(path)
    assert nbformat.read(path, as_version=4).cells[1].outputs[0].ename == "ZeroDivisionError"


def test_a_dead_kernel_is_named(notebook):
    with pytest.raises(Failed, match="cell 1: the kernel died"):
        execute(notebook("dead.ipynb", "import os\nos._exit(3)"))


def test_no_cell_reaches_the_network(notebook):
    with pytest.raises(Failed, match="lessons need no network, and something asked for example.org"):
        execute(notebook("online.ipynb", "import socket\nsocket.create_connection(('example.org', 80))"))


def changed(path, change):
    book = nbformat.read(path, as_version=4)
    change(book)
    nbformat.write(book, path)
    return origin_problems(path)


def test_origin_of_a_fresh_run_is_one(small):
    assert origin_problems(small) == []
    assert main(["--check", str(small)]) == 0


@pytest.mark.parametrize(("expected", "change"), [
    ("changed since make lessons", lambda book: book.cells[2].outputs.clear()),
    ("changed since make lessons", lambda book: book.cells[2].update(source="print(6)")),
    ("not once from the top", lambda book: book.cells[2].update(execution_count=9)),
    ("not executed by make lessons", lambda book: book.metadata.pop("agentkit")),
])
def test_another_origin_is_found(small, tmp_path, expected, change):
    path = tmp_path / "copy.ipynb"
    path.write_bytes(small.read_bytes())
    assert any(expected in problem for problem in changed(path, change))
    assert main(["--check", str(path)]) == 1


def test_prose_tags_and_another_save_change_no_origin(small, tmp_path):
    path = tmp_path / "copy.ipynb"
    path.write_bytes(small.read_bytes())

    def edit(book):
        book.cells[0].source += "\nMore."
        book.cells[1].metadata["tags"] = ["stable-output"]

    assert changed(path, edit) == []


def test_versions_other_than_the_locks_are_found(notebook, tmp_path):
    path = notebook("versions.ipynb", "versions = lambda: print('mlx 0.0.1 · langgraph 9.9')\nversions()")
    book = nbformat.read(path, as_version=4)
    book.cells[1].outputs = [v4.new_output("execute_result", {"text/plain": "'mlx 0.0.1 · langgraph 9.9'"})]
    nbformat.write(book, path)
    (tmp_path / "lock").write_text("mlx==0.32.4 ; sys_platform == 'linux'\nlanggraph==9.9\n")
    assert "its outputs come from mlx 0.0.1, the lock has 0.32.4" in origin_problems(path, tmp_path / "lock")
    assert "langgraph" not in " ".join(origin_problems(path, tmp_path / "lock"))
