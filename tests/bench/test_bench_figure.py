"""Figures, ratios and the command line: what holds whatever the machine. No test here looks at a time."""

import json
import os
import subprocess
import sys

import pytest

from agentkit.bench import figures, suite
from agentkit.bench.figure import Figure, Pairs, in_turn, pairs
from agentkit.cli.main import main
from agentkit.models.errors import BadField, ModelUnavailable


def test_the_ratio_is_the_median_of_paired_ratios_not_the_ratio_of_medians():
    found = Pairs([1.0, 20.0, 3.0], [2.0, 10.0, 3.0])
    assert found.ratios == [0.5, 2.0, 1.0]
    assert found.ratio == 1.0 and found.spread == (0.75, 1.5)


def test_a_machine_that_slows_down_halfway_changes_no_ratio():
    assert Pairs([1.0, 1.0, 7.0, 7.0], [2.0, 2.0, 14.0, 14.0]).spread == (0.5, 0.5)


def test_one_round_is_its_own_spread():
    assert Pairs([3.0], [2.0]).spread == (1.5, 1.5)


def test_sides_run_in_turn_and_swap_who_is_first():
    order, ticks = [], []

    def side(name, value):
        def run():
            order.append(name)
            return value

        return run

    found = pairs(side("a", 1.0), side("b", 2.0), 4, lambda *seen: ticks.append(seen))
    assert order == list("abbaabba"), "a drift hits both sides alike"
    assert (found.first, found.second) == ([1.0] * 4, [2.0] * 4), "results stay with their side"
    assert ticks == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert in_turn(1, side("a", 1), side("b", 2)) == (1, 2)


@pytest.mark.parametrize(("higher", "measured", "met"), [
    (True, 0.97, True), (True, 0.9699, False), (False, 0.97, True), (False, 0.971, False), (False, None, None),
])
def test_a_goal_is_met_from_its_side(higher, measured, met):
    figure = Figure("x", "a figure", "x", 0.97, higher).found(measured, "somehow")
    assert figure.met is met and figure.as_dict()["met"] is met
    assert figure.as_dict()["goal"] == {"at least" if higher else "at most": 0.97}


def test_what_cannot_be_measured_says_why_and_the_rest_goes_on(monkeypatch):
    from agentkit.bench import prefix

    def measure(quick, tick):
        raise ModelUnavailable("no weights here")

    monkeypatch.setattr(prefix, "measure", measure)
    found = figures.measure("prefix", True, lambda *_: None)
    assert [(f.title, f.measured, f.how) for f in found] == [
        (f.title, None, "not measured: no weights here") for f in prefix.FIGURES]


def test_only_keeps_the_usual_order_and_drops_repeats():
    assert figures.chosen(["constrained", "import", "constrained"]) == ["import", "constrained"]
    assert figures.chosen(None) == list(figures.NAMES)
    with pytest.raises(BadField, match="figure 'speed' is unknown; known are import, tests, loops"):
        figures.chosen(["speed"])


def test_seconds_of_the_test_suite_are_read_from_what_it_left(monkeypatch, tmp_path):
    path = tmp_path / "test-seconds"
    monkeypatch.setattr(suite, "seconds_file", lambda: path)
    tick = lambda *_: None  # noqa: E731
    assert suite.measure(True, tick)[0].how == "not measured: run make test first"
    path.write_text("never\n")
    assert suite.measure(True, tick)[0].measured is None
    path.write_text("372\n")
    found = suite.measure(True, tick)[0]
    assert found.measured == 6.2 and found.met and found.how.startswith("the last run, 0.0 hours ago")


def bench(*words):
    return subprocess.run([sys.executable, "-m", "agentkit.cli.main", "bench", *words], capture_output=True, text=True,
                          env={**os.environ, "COLUMNS": "100"}, timeout=120)


def test_json_holds_machine_and_figures():
    done = bench("--only", "import", "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["machine"].keys() >= {"cpu", "cores", "load", "load_after", "blas", "mlx"}
    (figure,) = data["figures"]
    assert figure["title"] == "import agentkit" and figure["goal"] == {"at most": 0.3} and figure["unit"] == "s"
    assert figure["how"] == "median of 7 fresh processes; with agentkit.models no MLX module is loaded"
    assert len(figure["details"]["seconds"]) == 7 and figure["measured"] > 0


def test_table_on_stdout_and_progress_on_stderr():
    done = bench("--only", "import", "tests", "--quick")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["figure", "measured", "goal", "met", "how"]
    assert lines[1].startswith("import agentkit") and "≤ 0.3 s" in lines[1] and "median of 3" in lines[1]
    assert lines[2].startswith("whole make test") and "≤ 20 min" in lines[2]
    assert f"{os.cpu_count()} cores" in lines[4] and "; load " in lines[4] and "; BLAS " in lines[4]
    assert "3/3" in done.stderr and "3/3" not in done.stdout


def test_a_missed_goal_is_reported_and_no_failure(monkeypatch, capsys, tmp_path):
    path = tmp_path / "test-seconds"
    path.write_text("1500")
    monkeypatch.setattr(suite, "seconds_file", lambda: path)
    assert main(["bench", "--only", "tests"]) == 0
    row = capsys.readouterr().out.splitlines()[1]
    assert "25 min" in row and " no " in row


def test_an_unknown_figure_is_one_line_and_code_2():
    done = bench("--only", "speed")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.splitlines() == [
        f"agentkit bench: figure 'speed' is unknown; known are {', '.join(figures.NAMES)}"]
