"""Progress of tests that run in parallel, as a pytest plugin (`-p tests.progress`): one line for each finished file.

pytest-xdist shows dots alone, from which nobody learns what runs. Here a notebook is named when it begins, any file
when it is done, with its seconds, and a failure at once. With -v, or without xdist, pytest's own progress stays.
"""

from collections import Counter, defaultdict

import pytest


def pytest_configure(config):
    """Only where the lines are written, and only if there are workers."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput") and config.option.verbose == 0:
        config.pluginmanager.register(FileLines(config), "agentkit-progress")


def file_of(nodeid: str) -> str:
    """tests/x.py::test_a[1] -> tests/x.py"""
    return nodeid.partition("::")[0]


class FileLines:
    """Counts the reports of each file; the last one of a file writes its line."""

    def __init__(self, config):
        self.config, self.running = config, True
        self.left: Counter = Counter()
        self.files = 0
        self.begun: set[str] = set()
        self.outcomes: dict[str, Counter] = defaultdict(Counter)
        self.seconds: Counter = Counter()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node, ids):
        """Every worker collects the same tests; the first to say so is enough."""
        if not self.left:
            self.left = Counter(map(file_of, ids))
            self.files = len(self.left)

    def pytest_runtest_logstart(self, nodeid):
        """A notebook begins: it may take a while, so say which."""
        file = file_of(nodeid)
        if file.endswith(".ipynb") and file not in self.begun:
            self._write(f"{'':>8}  {file} ...")
        self.begun.add(file)

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self):
        """No dots: the terminal writes nothing for a report without letter and word, but still counts it."""
        category, letter, word = yield
        return (category, "", "") if self.running else (category, letter, word)

    def pytest_runtest_logreport(self, report):
        """Note the outcome; after a test's last phase there is one fewer to wait for."""
        file = file_of(report.nodeid)
        self.seconds[file] += report.duration
        if report.failed:
            self._write(f"  FAILED  {report.nodeid}" + ("" if report.when == "call" else f" ({report.when})"), red=True)
        if report.failed or report.when == "call" or (report.when == "setup" and report.skipped):
            self.outcomes[file][report.outcome] += 1
        if report.when == "teardown":
            self.left[file] -= 1
            if not self.left[file]:
                self._done(file)

    def pytest_sessionfinish(self):
        """The summary that follows needs pytest's own words."""
        self.running = False

    def _done(self, file: str) -> None:
        done = self.files - sum(count > 0 for count in self.left.values())
        told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.outcomes[file].items()))
        self._write(f"{done:>3}/{self.files:<4}  {file}  {told}  {self.seconds[file]:.1f} s", red="failed" in self.outcomes[file])

    def _write(self, line: str, red: bool = False) -> None:
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        terminal.write_line(line, red=red)
