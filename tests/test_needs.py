"""The marker `needs` of tests/conftest.py: skips with the remedy, fails in CI, runs where the component is."""

from pathlib import Path

import pytest

SUITE = """
    import pytest

    @pytest.mark.needs({names})
    def test_uses_it():
        assert True
"""


@pytest.fixture
def outcome(pytester, monkeypatch):
    """Runs a test that needs these components under a PATH of one folder, with CI set or not."""

    def run(names: str, ci: str = ""):
        conftest = (Path(__file__).parent / "conftest.py").read_text()
        pytester.makeconftest(conftest.replace('pytest_plugins = ["pytester"]', ""))
        pytester.makepyfile(SUITE.format(names=names))
        monkeypatch.setenv("PATH", str(pytester.path))
        monkeypatch.setenv("CI", ci)
        monkeypatch.setattr("agentkit.components.FONT_FOLDERS", (str(pytester.path / "fonts"),))
        return pytester.runpytest_inprocess("-ra")

    return run


def test_missing_component_skips_with_the_command(outcome):
    result = outcome("'fonts-thai'")
    result.assert_outcomes(skipped=1)
    command = "(apt-get install -y --no-install-recommends fonts-thai-tlwg|part of macOS)"
    result.stdout.re_match_lines([f".*fonts-thai is missing .*to install: {command}.*"])


def test_missing_component_fails_in_ci(outcome):
    result = outcome("'fonts-thai'", ci="true")
    assert result.parseoutcomes().get("passed") is None and result.ret == 1


def test_present_component_runs(outcome, pytester):
    (pytester.path / "fonts").mkdir()
    (pytester.path / "fonts" / "Garuda.otf").write_bytes(b"")
    outcome("'fonts-thai'", ci="true").assert_outcomes(passed=1)


def test_unknown_component_is_an_error(outcome):
    result = outcome("'chrome'")
    assert result.ret == 1 and "no component 'chrome'" in result.stdout.str()
