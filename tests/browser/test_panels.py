"""The panels in a real JupyterLab: pressed, moved, stopped, broken on purpose and replayed, on the bundled model."""

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.model]

ROOT = Path(__file__).parents[2]
# JupyterLab saves what it has open: so it gets copies. They lie one folder below the root, as the lessons do.
COPIES = ROOT / "build"
CELLS = [
    """\
from agentkit.lab import Recording, Workbench
from agentkit.tools import tools_for

bench = Workbench("bundled", tools_for(["calculator"]), loop="react", question="What is 23 times 19?")
bench.panels()""",
    "bench.profile.temperature, bench.result.reason",
    'bench.recording().save("browser_run.jsonl")',
    'bench.replay(Recording.open("browser_run.jsonl"))',
]
SLOW = 120_000  # milliseconds; generous, since a model is loaded and other tests share the machine


class Book:
    """A notebook open in JupyterLab, and what a person does in it."""

    def __init__(self, page, lab, name):
        self.page = page
        page.set_default_timeout(SLOW)
        # Reset: the notebooks of the test before are not opened again beside this one.
        page.goto(f"{lab.split('/lab')[0]}/lab/tree/build/{name}?reset&{lab.partition('?')[2]}")
        page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=60_000)
        page.wait_for_selector("text=/Python 3.*Idle/", timeout=60_000)

    def run_all(self):
        self.page.locator(".lm-MenuBar-itemLabel", has_text="Run").first.click()
        self.page.locator(".lm-Menu-itemLabel", has_text="Run All Cells").first.click()

    def has_run(self, path):
        """Wait until every code cell has run. Read from the saved file: cells out of sight are not on the page."""
        waiting = ["everything"]
        for _ in range(SLOW // 1000):
            self.page.wait_for_timeout(2000)
            self.page.keyboard.press("Control+s")
            try:
                book = nbformat.read(path, as_version=4)
            except ValueError:  # it is just being written
                continue
            cells = [cell for cell in book.cells if cell.cell_type == "code"]
            waiting = [cell.source for cell in cells if not cell.execution_count]
            if not waiting:
                return
        raise AssertionError(f"not run: {waiting[0]}")

    def run(self, number):
        """Run a code cell and wait until it has its number."""
        cell = self.page.locator(".jp-CodeCell").nth(number)
        before = cell.locator(".jp-InputPrompt").inner_text()
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Shift+Enter")
        self.page.wait_for_function(
            "([cell, before]) => { const now = document.querySelectorAll('.jp-CodeCell')[cell]"
            ".querySelector('.jp-InputPrompt').innerText; return now !== before && /\\d/.test(now); }",
            arg=[number, before], timeout=SLOW)
        return cell

    def output(self, number):
        return self.page.locator(".jp-CodeCell").nth(number).locator(".jp-OutputArea-output").last.inner_text()

    def press(self, name):
        self.button(name).click()

    def button(self, name):
        return self.page.locator("button.widget-button", has_text=name).first

    def rows(self, panel="The run"):
        return self.page.locator(f"[aria-label='{panel}']").first

    def idle(self):
        """Wait until another run can be started."""
        self.page.locator("button.widget-button:enabled", has_text="Run").first.wait_for()

    def foot(self, text):
        """Wait until the run's last line says so."""
        line = self.page.locator(".agentkit-rows", has=self.page.locator("[aria-label='The run']")).locator(".agentkit-foot")
        line.filter(has_text=text).first.wait_for(timeout=SLOW)


@pytest.fixture
def panels(lab, page):
    """All four panels of a workbench on the bundled model, after its first run."""
    COPIES.mkdir(exist_ok=True)
    book = new_notebook(cells=[new_code_cell(cell) for cell in CELLS])
    book.metadata["kernelspec"] = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    nbformat.write(book, COPIES / "panels.ipynb")
    opened = Book(page, lab, "panels.ipynb")
    opened.run(0)
    return opened


def test_run_slider_graph_fault_stop_and_replay(panels, page):
    # The graph is dark before, and lit by a run; tokens arrive as rows.
    assert page.locator(".agentkit-graph .ak-done, .agentkit-graph .ak-running").count() == 0
    panels.press("Run")
    page.locator(".agentkit-graph .ak-running").first.wait_for(timeout=SLOW)
    panels.foot("ended: answer")
    assert page.locator(".agentkit-graph .ak-done").count() >= 2
    assert "437" in panels.rows().inner_text() and "437" in panels.rows("The messages").inner_text()

    # A slider reaches the profile of the next run.
    slider = page.locator(".widget-slider", has_text="temperature").locator(".noUi-handle").first
    slider.focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    panels.run(1)
    temperature, reason = panels.output(1).strip("()").split(", ")
    assert float(temperature) > 0.1 and reason == "'answer'"

    # Saved and opened again, the run is shown as it was.
    shown = panels.rows().inner_text()
    panels.run(2)
    panels.run(3)
    panels.foot("ended: answer")
    assert panels.rows().inner_text() == shown

    # A fault: the tool raises, the loop tells the model, the panel says so.
    page.get_by_label("fault", exact=True).select_option(label="a tool raises")
    page.get_by_text("inject into the next run").click()
    panels.press("Run")
    page.locator("[aria-label='What became of the fault'] .agentkit-error").first.wait_for(timeout=SLOW)
    panels.idle()

    # Stop ends a tool that would take an hour.
    page.get_by_label("fault", exact=True).select_option(label="a tool is slow")
    seconds = page.get_by_label("seconds", exact=True)
    seconds.fill("3600")
    seconds.press("Enter")
    panels.press("Run")
    panels.rows().locator(".agentkit-call").first.wait_for(timeout=SLOW)
    panels.press("Stop")
    panels.foot("ended: cancel")

    # And a model in the middle of its answer.
    page.get_by_text("inject into the next run").click()
    page.get_by_label("max_tokens", exact=True).first.fill("4000")
    page.get_by_placeholder("Ask something").fill("Tell me a very long story about a lighthouse, and never stop.")
    page.get_by_placeholder("Ask something").press("Tab")
    panels.press("Run")
    panels.rows().locator(".agentkit-row").nth(1).wait_for(timeout=SLOW)
    panels.press("Stop")
    panels.idle()
    assert page.problems == []


def test_a_lesson_runs_from_top_to_bottom(lab, page):
    name = "04_conditional_edges.ipynb"
    COPIES.mkdir(exist_ok=True)
    book = nbformat.read(ROOT / "notebooks" / name, as_version=4)
    for cell in book.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(book, COPIES / name)
    lesson = Book(page, lab, name)
    lesson.run_all()
    lesson.has_run(COPIES / name)
    lesson.press("Run")
    page.locator(".agentkit-graph .ak-running").first.wait_for(timeout=SLOW)
    lesson.foot("ended:")
    assert page.problems == []
