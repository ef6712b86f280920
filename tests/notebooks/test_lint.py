"""Every lesson keeps the rules, and the linter finds each kind of breach."""

import json
from pathlib import Path

import pytest

from tests.notebooks.lint import MAX_CELLS, MAX_LINES, problems

ROOT = Path(__file__).parents[2]
NOTEBOOKS = [path for path in sorted((ROOT / "notebooks").rglob("*.ipynb")) if ".ipynb_checkpoints" not in path.parts]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: str(path.relative_to(ROOT)))
def test_lesson_is_in_order(path):
    assert problems(path) == []


def code(source="1 + 1", count=1, outputs=(), tags=()):
    return {"cell_type": "code", "source": source, "execution_count": count, "outputs": list(outputs),
            "metadata": {"tags": list(tags)}}


def text(words):
    return {"output_type": "stream", "name": "stdout", "text": [words]}


ERROR = {"output_type": "error", "ename": "ValueError", "evalue": "", "traceback": []}
LOAD = code("model = load_model('bundled')", 1)
ASK = 'print(model.invoke("Hello").content)'
PICTURE = {"output_type": "display_data", "data": {"image/png": "AAAA/tmp/AAAA", "text/plain": "<Figure>"}}

BROKEN = {
    "never executed": [code(count=None)],
    "out of order": [code(count=2), code(count=2)],
    f"more than {MAX_LINES}": [code("\n".join(["x = 1"] * (MAX_LINES + 1)))],
    "path of one machine": [code(outputs=[text("wrote /home/anna/notes.txt")])],
    "ended in an error": [code(outputs=[ERROR])],
    "installs something": [code("%pip install numpy")],
    "live model's words": [LOAD, code(ASK, 2, [text("Hi!")])],
    f"more than {MAX_CELLS}": [code(count=number) for number in range(1, MAX_CELLS + 2)],
}
SOUND = {
    "empty code cell": [code("", None), code()],
    "markdown": [{"cell_type": "markdown", "source": "/home/ is where homes are", "metadata": {}}, code()],
    "expected error": [code("1 / 0", outputs=[ERROR], tags=["raises-exception"])],
    "picture": [code(outputs=[PICTURE])],
    "tagged words": [LOAD, code(ASK, 2, [text("Hi!")], ["nbval-ignore-output"])],
    "no words": [LOAD, code('reply = model.invoke("Hello")', 2)],
    "stable": [LOAD, code('print(len(model.invoke("Hello").content) > 0)', 2, [text("True")], ["stable-output"])],
    "no live model": [code(ASK, 1, [text("Hi!")])],
}


def write(folder, cells, kernel="python3"):
    path = folder / "lesson.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": {"kernelspec": {"name": kernel}}}))
    return path


@pytest.mark.parametrize("expected", BROKEN)
def test_linter_finds(expected, tmp_path):
    found = problems(write(tmp_path, BROKEN[expected]))
    assert len(found) == 1 and expected in found[0]


@pytest.mark.parametrize("name", SOUND)
def test_linter_accepts(name, tmp_path):
    assert problems(write(tmp_path, SOUND[name])) == []


def test_linter_wants_the_kernel_named(tmp_path):
    assert "kernel is 'ir'" in problems(write(tmp_path, [code()], kernel="ir"))[0]


def test_linter_reads_a_file_that_is_no_notebook(tmp_path):
    path = tmp_path / "lesson.ipynb"
    path.write_text("{")
    assert "not a notebook" in problems(path)[0]
