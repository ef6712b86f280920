"""Every lesson keeps the rules, and the linter finds each kind of breach."""

import json

import pytest

from tests.notebooks.lint import MAX_CELLS, MAX_LINES, ROOT, notebooks, problems
from tests.notebooks.origin import origin_problems


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: str(path.relative_to(ROOT)))
def test_notebook_is_in_order(path):
    assert problems(path) == []


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: str(path.relative_to(ROOT)))
def test_stored_outputs_have_one_origin(path):
    assert origin_problems(path) == [], "run `make lessons`"


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
    "path of one machine (/home/)": [code(outputs=[text("wrote /home/anna/notes.txt")])],
    "path of one machine (/var/)": [code(outputs=[text("cache: /var/folders/x")])],
    "path of one machine (C:": [code(outputs=[text("wrote C:\\notes.txt")])],
    "path of one machine (/": [code(outputs=[text(f"read {ROOT}/README.md")])],
    "looks like a key": [code(outputs=[text("Bearer sk-" + "a" * 20)])],
    "speaks of a key": [code('os.environ["OPENAI_API_KEY"]')],
    "address on the network": [code('load("https://huggingface.co/x")')],
    "'import requests'": [code("import requests")],
    "'urlopen('": [code("page = urlopen(place)")],
    "'!curl'": [code("!curl place")],
    "has a web service draw it": [code("graph.draw_mermaid_png()")],
    "steers nbval by a comment": [code("# NBVAL_SKIP\n1 + 1")],
    "tag nbval-skip means nothing": [code(tags=["nbval-skip"])],
    "tag excercise means nothing": [code(tags=["excercise"])],
    "waits for the keyboard": [code('name = input("?")')],
    "(clear_output": [code("clear_output(wait=True)")],
    "nbval cannot follow": [code("with out:\n    print(1)")],
    "'@interact'": [code("@interact\ndef f(x=1): print(x)")],
    "'display_id'": [code("handle = display(1, display_id=True)")],
    "ends in a semicolon": [code("axes.set_title('x');")],
    "sets the picture format": [code("%config InlineBackend.figure_format = 'svg'")],
    "stores image/svg+xml": [code(outputs=[{"output_type": "display_data", "data": {"image/svg+xml": "<svg/>"}}])],
    "no later cell that is compared": [LOAD, code(f"reply = {ASK}", 2, [text("Hi!")], ["nbval-ignore-output"]), code(count=3)],
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
    "tagged words": [LOAD, code(ASK, 2, [text("Hi!")], ["nbval-ignore-output"]), code(count=3)],
    "tagged words, then what must hold": [LOAD, code(f"reply = {ASK}", 2, [text("Hi!")], ["nbval-ignore-output"]),
                                          code("len(reply) > 0", 3)],
    "this machine and a name for examples": [code('urls = ["http://127.0.0.1:8000", "https://example.org/a"]')],
    "a path inside a path": [code(outputs=[text("data/tmp/x, ../home/y, </var>")])],
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
    assert len(found) == 1 and expected in found[0], found


@pytest.mark.parametrize("name", SOUND)
def test_linter_accepts(name, tmp_path):
    assert problems(write(tmp_path, SOUND[name])) == []


def test_linter_wants_the_kernel_named(tmp_path):
    assert "kernel is 'ir'" in problems(write(tmp_path, [code()], kernel="ir"))[0]


def test_linter_reads_a_file_that_is_no_notebook(tmp_path):
    path = tmp_path / "lesson.ipynb"
    path.write_text("{")
    assert "not a notebook" in problems(path)[0]
