"""Field reports about notebooks and courses, each as a test of its whole kind and named by its source."""

import ast
import importlib
import json
import re
import tomllib
from pathlib import Path

import nbformat
import pytest
from langgraph.graph import START, StateGraph
from nbformat import v4

from tests.notebooks.lint import ROOT, notebooks, problems, source

NOTEBOOKS = pytest.mark.parametrize("path", notebooks(), ids=lambda path: str(path.relative_to(ROOT)))
PAGES = sorted([ROOT / "README.md", *(ROOT / "guide").glob("*.md"), *(ROOT / "data").rglob("*.md")])


def code_of(path: Path) -> list[str]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [source(cell) for cell in cells if cell["cell_type"] == "code"]


def test_nbval_231_output_that_comes_late_is_waited_for(judged, tmp_path):
    """The kernel says only seven seconds after its reply that the cell is over; nbval alone waits for five."""
    late = ("import time\nsession = get_ipython().kernel.session\nsend = session.send\n"
            "def slow(stream, kind, *args, **more):\n    if kind == 'status':\n        time.sleep(7)\n"
            "    return send(stream, kind, *args, **more)\nsession.send = slow\n'over'")
    book = v4.new_notebook(cells=[v4.new_code_cell(late, execution_count=1, outputs=[
        v4.new_output("execute_result", {"text/plain": "'over'"}, execution_count=1)])])
    nbformat.write(book, tmp_path / "late.ipynb")
    run = judged([tmp_path / "late.ipynb"])
    assert (run.code, run.cells) == (0, {"late": ["PASSED"]}), run.text


def test_nbval_138_figures_are_stored_in_one_format():
    """Every stored picture is a PNG, whatever a reader's configuration makes of it; the lint forbids setting another."""
    kinds = {kind for path in notebooks() for cell in nbformat.read(path, as_version=4).cells
             for output in cell.get("outputs", []) for kind in output.get("data", {})}
    assert {kind for kind in kinds if kind.startswith("image/")} <= {"image/png"}


def test_nbval_138_a_kind_of_output_that_is_missing_is_a_failure(small, judged, tmp_path):
    book = nbformat.read(small, as_version=4)
    book.cells[-1].outputs[0].data["image/svg+xml"] = "<svg/>"
    nbformat.write(book, tmp_path / "svg.ipynb")
    assert judged([tmp_path / "svg.ipynb"]).cells["svg"][-1] == "FAILED"
    assert any("stores image/svg+xml" in problem for problem in problems(tmp_path / "svg.ipynb"))


@NOTEBOOKS
def test_nbval_194_no_cell_ends_in_a_semicolon(path):
    assert [code for code in code_of(path) if code.rstrip().endswith(";")] == []


@NOTEBOOKS
def test_langgraph_4121_nothing_is_installed_by_a_lesson(path):
    assert [problem for problem in problems(path) if "installs" in problem] == []


def test_langgraph_4121_the_lock_pins_the_companions_of_langgraph_to_one_version_each():
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    for name in ("langgraph", "langgraph-prebuilt", "langgraph-checkpoint", "langchain", "langchain-core"):
        assert len(re.findall(rf"^{name}==", lock, re.MULTILINE)) == 1


@NOTEBOOKS
def test_ai_agents_for_beginners_575_every_name_that_a_lesson_imports_exists(path):
    missing = []
    for code in code_of(path):
        for node in ast.walk(ast.parse(re.sub(r"^\s*[%!].*", "", code, flags=re.MULTILINE))):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    importlib.import_module(alias.name)
            elif isinstance(node, ast.ImportFrom):
                module = importlib.import_module(node.module)
                missing += [f"{node.module}.{alias.name}" for alias in node.names
                            if not hasattr(module, alias.name) and not _is_module(f"{node.module}.{alias.name}")]
    assert missing == []


def _is_module(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def test_ai_agents_for_beginners_575_make_test_executes_every_notebook(make_test_command):
    """The folder as a whole goes to nbval, in strict mode; nothing is left out by hand."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^TESTS\s+\?= \$\(wildcard notebooks\) tests$", makefile, re.MULTILINE)
    assert "--nbval" in make_test_command and "--nbval-lax" not in make_test_command
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    assert not re.search(r"--ignore|--deselect|norecurse", " ".join([*make_test_command, json.dumps(options)]))
    skipped = [path for path in notebooks() for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
               if "nbval-skip" in cell["metadata"].get("tags", [])]
    assert skipped == []


def links(text: str) -> list[str]:
    """The relative targets of Markdown links and pictures, without their anchors."""
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    return [target for target in targets if target and not re.match(r"[a-z]+:", target)]


def named_files(text: str) -> list[str]:
    """What stands between backticks and is a path of the project: it begins with one of its folders."""
    named = re.findall(r"`((?:agentkit|data|guide|notebooks|tests|\.ci|\.jupyter)/[\w./-]+)`", text)
    return [name for name in named if "..." not in name and "<" not in name]


@pytest.mark.parametrize("path", [*PAGES, *notebooks()], ids=lambda path: str(path.relative_to(ROOT)))
def test_ai_agents_for_beginners_575_every_file_that_a_page_names_exists(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        text = "\n\n".join(source(cell) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown")
    assert [link for link in links(text) if not (path.parent / link).exists()] == []
    assert [name for name in named_files(text) if not (ROOT / name).exists()] == []


@NOTEBOOKS
def test_ai_agents_for_beginners_575_every_file_that_code_opens_exists(path):
    opened = [name for code in code_of(path) for name in re.findall(r"[\"']((?:\.\./)+[\w./-]+)[\"']", code)]
    assert [name for name in opened if not (path.parent / name).exists()] == []


@NOTEBOOKS
def test_llms_from_scratch_1020_no_long_float_of_a_live_run_is_compared(path):
    """Sums differ in the last digits from machine to machine: a compared output shows no more than five digits of one."""
    long = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        ignored = {"nbval-ignore-output"} & set(cell["metadata"].get("tags", []))
        for output in [] if ignored else cell.get("outputs", []):
            text = "".join(output.get("data", {}).get("text/plain", "")) + "".join(output.get("text", ""))
            long += re.findall(r"(?<![\w.])\d+\.\d{6,}", text)
    assert long == []


def test_langgraph_4275_a_graph_is_drawn_with_no_network(monkeypatch):
    """agentkit.lab.draw needs no service, with the report's one-letter node names either."""
    from agentkit.lab import draw

    monkeypatch.setattr("socket.socket.connect", lambda *args: pytest.fail("asked the network"))
    monkeypatch.setattr("socket.getaddrinfo", lambda *args, **kwargs: pytest.fail("asked the network"))
    graph = StateGraph(dict).add_node("A", lambda state: state).add_edge(START, "A").compile()
    picture = draw(graph)
    assert "<svg" in picture._repr_html_() and "A" in repr(picture)


@NOTEBOOKS
def test_langgraph_4275_no_lesson_names_the_network(path):
    assert [problem for problem in problems(path) if "network" in problem or "web service" in problem] == []
