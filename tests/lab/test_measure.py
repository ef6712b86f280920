"""Figures for comparisons: sizes, endings, functions entered, and a table that shows them."""

import threading

from agentkit.lab import table
from agentkit.lab.measure import code_lines, entered, outcome, ratio


def sample():
    # a comment is no code

    return inner()


def inner():
    return 1


def test_lines_count_code_only():
    assert code_lines(sample) == 2 and code_lines(sample, inner) == 4


def test_an_ending_is_told_in_words():
    assert outcome(lambda: 437) == "437"
    assert outcome(lambda: " ") == "ends in silence: an empty answer"
    assert outcome(lambda: 1 / 0) == "the run breaks off: ZeroDivisionError"


def test_functions_are_counted_once_each_and_in_new_threads_too():
    assert entered(lambda: [sample(), sample()]) - entered(lambda: [inner()]) == 1

    def threaded():
        thread = threading.Thread(target=sample)
        thread.start()
        thread.join()

    assert entered(threaded) > entered(lambda: threading.Thread(target=sample)) + 2


def test_a_ratio_runs_both_in_pairs():
    order = []
    assert ratio(lambda: order.append("a"), lambda: order.append("b"), pairs=3) > 0
    assert order == ["a", "b"] * 4


def test_a_table_reads_as_text_and_as_html():
    shown = table(["name", "value"], [("<a>", 1), ("long name", None)])
    assert repr(shown).splitlines() == ["name      | value", "----------+------", "<a>       | 1", "long name | None"]
    assert "&lt;a&gt;" in shown._repr_html_() and "<a>" not in shown._repr_html_()
