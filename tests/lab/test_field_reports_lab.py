"""Reports about notebooks and widgets elsewhere, each a test of what our panels do instead. Named by their source."""

import ast
import asyncio
import threading
from pathlib import Path

import agentkit.lab
from agentkit.lab import Workbench
from agentkit.lab.stage import REFRESH
from agentkit.models import ScriptedChatModel, Step
from tests.lab.test_run_and_messages import stream

SOURCES = sorted(Path(agentkit.lab.__file__).parent.rglob("*.py"))


def names_used(path):
    """Every name and attribute in a module, and what it imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            if node.attr != "display":  # also a field of a layout
                yield node.attr
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.name.split(".")[-1] for alias in node.names)
            yield from (getattr(node, "module", None) or "").split(".")


def test_ipywidgets_4020_text_of_a_thread_is_not_lost_because_no_thread_prints(capfd):
    """ipykernel 7 no longer routes what a thread prints to a cell. Panels print nothing: they get typed events."""
    loose = {"print", "Output", "append_stdout", "clear_output", "display", "capture"}
    assert {path.name: found for path in SOURCES if (found := loose & set(names_used(path)))} == {}
    bench = Workbench(ScriptedChatModel(["from a thread"]), loop="lite", question="q")
    panel = bench.run_panel
    worker = threading.Thread(target=bench.ask)
    worker.start()
    worker.join(60)
    assert "from a thread" in panel.text() and capfd.readouterr() == ("", "")


def test_ipywidgets_3993_a_run_s_rows_stay_with_their_panel_across_an_await():
    """`with out:` sends what comes after an await to whichever cell runs then. Here each run has its own views."""
    benches = [Workbench(ScriptedChatModel([f"one {n}", f"two {n}"]), loop="lite", question="q") for n in range(3)]
    panels = [bench.run_panel for bench in benches]

    async def lesson(bench):
        bench.start()
        await asyncio.to_thread(bench.wait, 60)
        await asyncio.sleep(0)
        bench.start()
        await asyncio.to_thread(bench.wait, 60)

    async def all_at_once():
        await asyncio.gather(*map(lesson, benches))

    asyncio.run(all_at_once())
    assert [panel.text().splitlines()[0] for panel in panels] == [f"    model | two {n}" for n in range(3)]


def test_ipywidgets_3039_no_cell_and_no_callback_waits_for_another(wire):
    """A cell that waits for a widget's value waits for ever: the value arrives when the cell is over.

    So a click returns at once, the blocking call needs no click, and a click during it is carried out after it.
    """
    go = threading.Event()
    waiting = Workbench(ScriptedChatModel([Step("first", delay=600)]), loop="lite", question="q")
    waiting.run_panel.run_button.click()  # returns although the model waits
    assert waiting.busy
    waiting.run_panel.stop_button.click()
    assert waiting.wait(60)
    bench = Workbench(ScriptedChatModel(["first", "second"]), loop="lite", question="q")
    panel = bench.run_panel
    kernel = threading.Thread(target=lambda: (bench.ask(timeout=60), panel.run_button.click(), bench.wait(60), go.set()))
    kernel.start()
    assert go.wait(60), "the kernel's one thread was stuck"
    # A page that asks for everything while a run draws is answered, whichever thread carries the request.
    wire.clear()
    with bench.stage.lock:
        panel.live._asked(panel.live, {"want": "all"}, [])
    assert wire.custom()[0]["all"] is True


def test_jupyterlab_19719_callbacks_may_come_on_any_thread_beside_a_running_cell():
    """With subshells a callback runs beside a cell: two clicks at once must not start two runs, nor share pyplot."""
    assert [path.name for path in SOURCES if "pyplot" in set(names_used(path))] == []
    model = ScriptedChatModel([Step("slow", delay=600), "x"])
    bench = Workbench(model, loop="lite", question="q")
    panel = bench.run_panel
    clicks = [threading.Thread(target=panel.run_button.click) for _ in range(12)]
    sliders = [threading.Thread(target=panel.form.fields["top_k"].set_state, args=({"value": n},)) for n in range(12)]
    for thread in clicks + sliders:
        thread.start()
    for thread in clicks + sliders:
        thread.join(60)
    assert not any(thread.is_alive() for thread in clicks + sliders)
    assert sum(thread.name == "agentkit-bench" for thread in threading.enumerate()) == 1
    assert bench.profile.top_k == panel.form.fields["top_k"].value
    panel.stop_button.click()
    assert bench.wait(60) and len(model.calls) <= 1


def test_ironflow_179_a_drawing_does_not_get_dearer_with_the_length_of_the_text(wire):
    """`Output.append_stdout` sends the whole text for each token: 126 MB for 2000. Here a drawing sends what is new."""
    assert REFRESH >= 1 / 20
    bench = Workbench(ScriptedChatModel(["x"]), loop="lite")
    bench.panels("run", "messages")
    wire.clear()
    stream(bench, 4000, drawn_every=5)
    sizes = [size for _, data, size in wire.messages if data.get("method") == "custom"]
    early, late = sizes[10:110], sizes[-110:-10]
    assert len(sizes) <= 820 and sum(late) <= sum(early) * 1.1
