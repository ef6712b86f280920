"""Counts, percentages and the two ways of showing them."""

import pytest

from agentkit.evals.report import Outcome, Report


@pytest.fixture
def report():
    rows = [("a", "none", True, True), ("b", "single", True, False), ("c", "single", False, False)]
    outcomes = [Outcome(i, kind, {"tool": t, "exact": e}, "" if e else "wrong", seconds=0.5, tokens=4)
                for i, kind, t, e in rows]
    return Report("demo", ("tool", "exact"), outcomes)


def test_counts_and_percentages(report):
    assert report.count("tool") == (2, 3)
    assert report.count("tool", "single") == (1, 2)
    assert report.percent("tool") == 66.7
    assert report.percent("exact", "single") == 0.0
    assert report.kinds == ["none", "single"]
    assert [o.id for o in report.failures] == ["b", "c"]


def test_as_dict(report):
    data = report.as_dict(failures=True)
    assert data["overall"] == {"tool": {"right": 2, "percent": 66.7}, "exact": {"right": 1, "percent": 33.3}}
    assert data["kinds"]["single"] == {"cases": 2, "tool": {"right": 1, "percent": 50.0},
                                       "exact": {"right": 0, "percent": 0.0}}
    assert (data["eval"], data["cases"], data["seconds"], data["tokens"]) == ("demo", 3, 1.5, 12)
    assert [(f["id"], f["reason"]) for f in data["failures"]] == [("b", "wrong"), ("c", "wrong")]
    assert "failures" not in report.as_dict()


def test_table(report):
    assert report.table().splitlines() == [
        "kind    cases        tool       exact",
        "none        1  1 (100.0%)  1 (100.0%)",
        "single      2   1 (50.0%)    0 (0.0%)",
        "all         3   2 (66.7%)   1 (33.3%)",
        "1.5 s in the model, 12 tokens generated (8.0 per second, prompts included in the time)",
    ]


def test_a_report_without_cases():
    empty = Report("demo", ("exact",))
    assert empty.percent("exact") == 0.0
    assert empty.as_dict()["tokens"] is None
    assert empty.table().splitlines()[1].split() == ["all", "0", "0", "(0.0%)"]
