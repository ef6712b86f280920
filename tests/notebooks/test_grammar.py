"""Every lesson has all parts of a lesson, every solution answers its lesson, and a missing part is found."""

import copy
import json

import pytest

from tests.notebooks.grammar import lesson_problems, solution_problems
from tests.notebooks.lint import ROOT

LESSONS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
SOLUTIONS = ROOT / "notebooks" / "solutions"


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_lesson_has_its_parts(path):
    assert lesson_problems(path) == []


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_solution_answers_its_lesson(path):
    assert solution_problems(path, SOLUTIONS / path.name) == []


def test_there_is_a_lesson_for_each_solution():
    assert sorted(path.name for path in SOLUTIONS.glob("*.ipynb")) == [path.name for path in LESSONS]


def prose(text):
    return {"cell_type": "markdown", "source": text, "metadata": {}}


def code(source, *tags, says=None):
    outputs = [{"output_type": "execute_result", "data": {"text/plain": [says]}}] if says else []
    return {"cell_type": "code", "source": source, "metadata": {"tags": list(tags)}, "outputs": outputs}


LESSON = [
    prose("# 07 · Doors\n\n**Goal.** To open one.\n**Time.** 5 minutes."),
    code('from agentkit.lab import predict\nversions()'),
    code('guess = predict("doors: which")'),
    code('model = load_model("bundled")\nanswer = model.invoke("Open the door.")'),
    code("guess.reveal()"),
    prose("## Break it"),
    code('read("../data")'),
    prose("## Exercises"),
    code("key = None", "exercise"), code("check.key(key)", says="Not yet: no key."),
    code("door = None", "exercise"), code("check.door(door)", says="Not yet: no door."),
    prose("## Recap"),
]
SOLUTION = copy.deepcopy(LESSON)
for number, changed in {0: prose("# 07 · Doors: solutions"), 6: code('read("../../data")'),
                        8: code("key = 1", "exercise"), 9: code("check.key(key)", says="Right: it fits."),
                        10: code("door = 2", "exercise"), 11: code("check.door(door)", says="Right: it opens.")}.items():
    SOLUTION[number] = changed


@pytest.fixture
def write(tmp_path):
    def to(cells, folder="."):
        path = tmp_path / folder / "07_doors.ipynb"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
        return path

    return to


def but(cells, number, cell):
    return cells[:number] + ([cell] if cell else []) + cells[number + 1:]


def test_whole_lesson_and_solution_pass(write):
    assert lesson_problems(write(LESSON)) == []
    assert solution_problems(write(LESSON), write(SOLUTION, "solutions")) == []


@pytest.mark.parametrize(("number", "cell", "expected"), [
    (0, prose("# 08 · Doors\n\n**Goal.** a **Time.** b"), "not a title"),
    (0, prose("# 07 · Doors\n\n**Time.** 5 minutes."), "no **Goal.**"),
    (1, code("import agentkit"), "versions()"),
    (2, code("guess = 1"), "no prediction"),
    (4, None, "no prediction"),
    (3, code('model = ScriptedChatModel(["yes"])\nmodel.invoke("Open the door.")'), "no live run"),
    (5, prose("## Go on"), "'Break'"),
    (12, prose("## End"), "'Recap'"),
    (8, code("key = None"), "fewer than two exercises"),
    (9, code("key"), "without a check behind it"),
    (11, code("check.door(door)", says="Right: open."), "before it is solved"),
])
def test_missing_part_is_found(write, number, cell, expected):
    assert expected in "\n".join(lesson_problems(write(but(LESSON, number, cell))))


@pytest.mark.parametrize(("number", "cell", "expected"), [
    (2, code("guess = 1"), "cell 2: differs from the lesson"),
    (5, prose("## Break"), "cell 5: differs from the lesson"),
    (8, LESSON[8], "cell 8: the exercise is not filled in"),
    (8, code("key = 1"), "cell 8: another kind or other tags"),
    (9, code("check.key(key)", says="Not yet: it is bent."), "cell 9: a check says 'Not yet: ...'"),
    (11, code("check.door(door)"), "cell 10: its check does not say"),
    (12, None, "12 cells, the lesson has 13"),
])
def test_difference_of_a_solution_is_found(write, number, cell, expected):
    assert expected in "\n".join(solution_problems(write(LESSON), write(but(SOLUTION, number, cell), "solutions")))
