"""The training loop on a tiny Llama: the loss falls, and a stop or a kill at any moment costs nothing but time."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest

from agentkit.models.errors import AgentkitError
from agentkit.models.owner import owner
from tests.training.conftest import DATA

TOOL = """
- names: [convert, fx]
  descriptions: [Convert money.]
  parameters: {amount: {type: integer, kind: "int(1,50)"}, to: {type: string, kind: currency}}
  requests: ["{amount} in {to}", "give me {amount} as {to}", "{amount} to {to}"]
  outcomes: [{result: "{amount}", answer: "It is {amount} {to}."}]
"""
SETS = {"tools/money.yaml": "family: money\ntools:" + TOOL + TOOL.replace("convert, fx", "pay, send").replace("Convert", "Pay"),
        "talk.yaml": "[{questions: [hi, hello], answers: [Hello!]}]"}
# A matrix product's last bits depend on where in memory its arrays lie; eight steps of this rate move a value by 0.02.
CLOSE = 5e-5
FEW = {"steps": 8, "rank": 4, "dialogues": 2, "warmup": 2, "seed": 5, "save_every": 3, "check_every": 100, "learning_rate": 5e-3}


def recipe(**changes):
    from agentkit.training.train import Recipe

    return replace(Recipe(**FEW), **changes)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A set of two small tools: the tiny tokenizer makes a token of nearly every letter."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "tools").mkdir()
    for name, text in SETS.items():
        (folder / name).write_text(text)
    return folder


def run(out, base, data, made, *, stop_after=None, **options):
    """Train on the owner thread; `stop_after` sets the stop event once that step has been reported."""
    from agentkit.training.train import train

    stop, rows = threading.Event(), []

    def on_step(row):
        rows.append(row)
        if row["step"] == stop_after:
            stop.set()

    return owner().call(lambda: train(out, base, data, made, on_step=on_step, stop=stop, **options)), rows


def adapter(out, name="adapter"):
    """Arrays of a saved file, as numpy."""

    def read():
        import mlx.core as mx
        import numpy as np

        return {key: np.array(value) for key, value in mx.load(str(out / f"{name}.safetensors")).items()}

    return owner().call(read)


def distance(one, two):
    """The mean difference of two sets of arrays under the same names."""
    assert one.keys() == two.keys()
    apart = [abs(one[name].astype("float32") - two[name].astype("float32")) for name in one]
    return sum(a.sum() for a in apart) / sum(a.size for a in apart)


def saved_step(out):
    def read():
        import mlx.core as mx

        return int(mx.load(str(out / "state.safetensors"), return_metadata=True)[1]["step"])

    return owner().call(read)


def steps(out):
    return [json.loads(line)["step"] for line in (out / "log.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def unbroken(llama, data, tmp_path_factory):
    """A whole run of eight steps: its folder."""
    out = tmp_path_factory.mktemp("unbroken")
    run(out, llama, data, recipe())
    return out


def test_the_loss_falls(llama, data, tmp_path):
    last, rows = run(tmp_path, llama, data, recipe(steps=40, check_every=20, learning_rate=2e-2))
    assert last == rows[-1] and [row["step"] for row in rows] == list(range(1, 41))
    first, final = rows[0]["loss"], sum(row["loss"] for row in rows[-5:]) / 5
    assert final < first * 0.8
    checks = [row["validation"] for row in rows if "validation" in row]
    assert len(checks) == 2 and checks[1] < checks[0], "groups it never trained on get likelier, too"


def test_one_row_a_step_and_what_it_tells(unbroken):
    rows = [json.loads(line) for line in (unbroken / "log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(1, 9))
    assert all(row["loss"] > 0 and row["norm"] > 0 and row["tokens"] > 0 and row["dialogues"] >= 1 for row in rows)
    assert "validation" in rows[-1]


def test_the_same_seed_gives_the_same_adapter_and_another_another(llama, data, unbroken, tmp_path):
    run(tmp_path / "again", llama, data, recipe())
    run(tmp_path / "other", llama, data, recipe(seed=6))
    one, two, three = adapter(unbroken), adapter(tmp_path / "again"), adapter(tmp_path / "other")
    assert distance(one, two) < CLOSE < 2e-3 < distance(one, three)


@pytest.mark.parametrize("after", [1, 3, 5])
def test_stopped_and_resumed_it_ends_as_an_unbroken_run(llama, data, unbroken, tmp_path, after):
    """The stop comes while a step is being reported, as Ctrl-C may; that step is saved."""
    run(tmp_path, llama, data, recipe(), stop_after=after)
    assert steps(tmp_path) == list(range(1, after + 1))
    last, rows = run(tmp_path, llama, data, recipe())
    assert [row["step"] for row in rows] == list(range(after + 1, 9)), "no step is done twice"
    assert steps(tmp_path) == list(range(1, 9)) and last["step"] == 8
    for name in ("adapter", "state"):
        assert distance(adapter(unbroken, name), adapter(tmp_path, name)) < CLOSE


KILLED = """
import sys
from pathlib import Path
from agentkit.models.blas import use_fast_blas
use_fast_blas()
from agentkit.training.train import Recipe, train
train(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), Recipe(**eval(sys.argv[4])), on_step=lambda row: print(row["step"], flush=True))
"""


def test_killed_without_warning_it_goes_on_from_the_last_save(llama, data, tmp_path):
    """kill -9 in the midst of it: the steps since the last save are done again, and stand once in the log."""
    code = [sys.executable, "-c", KILLED, str(tmp_path), str(llama), str(data), str(FEW | {"steps": 10**6})]
    with subprocess.Popen(code, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        for line in process.stdout:
            if int(line) == 5:
                break
        process.send_signal(signal.SIGKILL)
    with (tmp_path / "log.jsonl").open("a") as log:
        log.write('{"step": 7, "lo')  # as a kill in the midst of writing leaves it
    saved = saved_step(tmp_path)
    assert saved >= 3 and saved % 3 == 0
    _, rows = run(tmp_path, llama, data, recipe(steps=saved + 4))
    assert [row["step"] for row in rows] == list(range(saved + 1, saved + 5))
    assert steps(tmp_path) == list(range(1, saved + 5))


def test_a_finished_run_is_not_trained_further_and_fresh_starts_anew(llama, data, unbroken, tmp_path):
    for file in unbroken.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    before = adapter(tmp_path)
    last, rows = run(tmp_path, llama, data, recipe())
    assert rows == [] and last == {"step": 8}
    _, rows = run(tmp_path, llama, data, recipe(steps=2), resume=False)
    assert [row["step"] for row in rows] == [1, 2]
    assert steps(tmp_path) == [1, 2], "the log is that of the new run"
    assert distance(before, adapter(tmp_path)) > 2e-3


def test_it_can_start_from_another_adapter(llama, data, unbroken, tmp_path):
    _, [row] = run(tmp_path, llama, data, recipe(steps=1, learning_rate=1e-9), init_from=unbroken / "adapter.safetensors")
    assert row["step"] == 1
    assert distance(adapter(unbroken), adapter(tmp_path)) < CLOSE


def test_the_adapter_file_tells_its_recipe_and_is_half_precision(unbroken):
    def read():
        import mlx.core as mx

        arrays, meta = mx.load(str(unbroken / "adapter.safetensors"), return_metadata=True)
        return {str(value.dtype) for value in arrays.values()}, meta

    kinds, meta = owner().call(read)
    assert kinds == {"mlx.core.float16"}
    assert meta["step"] == "8" and float(meta["scale"]) == recipe().scale
    assert json.loads(meta["recipe"])["seed"] == 5


def test_the_rate_warms_up_stays_and_falls_to_nothing():
    from agentkit.training.train import Recipe, rate

    made = Recipe(steps=100, warmup=10, decay=0.3, learning_rate=1.0)
    rates = [rate(made, step) for step in range(100)]
    assert rates[:3] == pytest.approx([0.1, 0.2, 0.3]) and rates[9:70] == [1.0] * 61
    assert all(a > b for a, b in zip(rates[70:], rates[71:])) and 0 < rates[-1] < 0.05


def test_validation_groups_are_never_trained_on(corpus, tokenizer):
    from agentkit.training.train import VALIDATION_GROUPS, batch

    def rows():
        made = recipe(steps=30)
        return [[tuple(batch(corpus, tokenizer, made, step).tokens.tolist()) for step in span]
                for span in (range(-VALIDATION_GROUPS, 0), range(30))]

    held, trained = owner().call(rows)
    assert len(set(held)) == VALIDATION_GROUPS and not set(held) & set(trained)


@pytest.mark.parametrize(("text", "says"), [
    ("family: x\ntools: [", "x.yaml"),
    ("family: x\ntools:\n- {names: [f], descriptions: [F.], parameters: {a: {type: string, kind: cty}}, requests: ['{a}', '{a}.', '{a}?'],"
     " outcomes: [{result: r, answer: a}]}", "a: kind 'cty' is unknown"),
    ("", "holds no tools")])
def test_a_broken_set_is_refused_before_anything_is_written(llama, tmp_path, text, says):
    from agentkit.training.train import train

    (tmp_path / "data" / "tools").mkdir(parents=True)
    (tmp_path / "data" / "tools" / "x.yaml").write_text(text)
    with pytest.raises(AgentkitError, match="fine-tuning set") as caught:
        train(tmp_path / "out", llama, tmp_path / "data", recipe())
    assert says in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_the_command_stops_on_a_signal_and_goes_on(llama, tmp_path, monkeypatch):
    """`agentkit train tools`, interrupted: exit code 0, everything saved, and the same command finishes."""
    from agentkit.models.bundled import folder_for

    # The cache of this test holds the tiny Llama in the place of the untouched bundled model.
    monkeypatch.setenv("AGENTKIT_CACHE", str(tmp_path / "cache"))
    folder_for(None).parent.mkdir(parents=True)
    folder_for(None).symlink_to(llama)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "agentkit.cli.main", "train", "tools", "--out", str(out), "--data", str(DATA),
               "--rank", "4", "--dialogues", "2", "--steps"]
    with subprocess.Popen([*command, "100000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not (out / "log.jsonl").exists():
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate()
    assert process.returncode == 0
    done = len(steps(out))
    assert f"step {done} of 100000" in told
    got = subprocess.run([*command, str(done + 2)], capture_output=True, text=True)
    assert got.returncode == 0 and f"step {done + 2} of {done + 2}" in got.stdout, got.stderr
    assert steps(out) == list(range(1, done + 3))
