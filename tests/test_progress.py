"""The progress of parallel tests: a line for each finished file, failures at once, and pytest's own summary after it."""

import re
from pathlib import Path

import pytest

SUITE = {"test_a": "def test_one(): pass\ndef test_two(): pass", "test_b": "def test_red(): assert 1 == 2\ndef test_green(): pass",
         "test_c": "import pytest\n@pytest.mark.skip(reason='no door')\ndef test_out(): pass"}


@pytest.fixture
def shown(pytester, monkeypatch):
    """The lines of a run of SUITE in processes of its own."""
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    pytester.makepyfile(**SUITE)
    return lambda *options: pytester.runpytest_subprocess("-p", "tests.progress", "--dist=loadfile", *options)


def test_one_line_a_file(shown):
    result = shown("-n2")
    assert result.ret == 1
    lines = "\n".join(result.outlines)
    assert re.search(r"^ +\d/3 +test_a\.py  2 passed  [\d.]+ s$", lines, re.MULTILINE)
    assert re.search(r"^ +\d/3 +test_b\.py  1 failed, 1 passed  [\d.]+ s$", lines, re.MULTILINE)
    assert re.search(r"^ +\d/3 +test_c\.py  1 skipped  [\d.]+ s$", lines, re.MULTILINE)
    assert lines.index("  FAILED  test_b.py::test_red") < lines.index("test_b.py  1 failed")
    assert sorted(re.findall(r"^ +(\d)/3", lines, re.MULTILINE)) == ["1", "2", "3"]
    assert "FAILED test_b.py::test_red - assert 1 == 2" in lines
    result.assert_outcomes(passed=3, failed=1, skipped=1)


def test_without_workers_pytests_own_progress_stays(shown):
    result = shown("-n0")
    result.stdout.fnmatch_lines(["test_a.py ..*"])
    assert not any(re.match(r" +\d/3", line) for line in result.outlines)
