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

FEW = {"steps": 8, "rank": 4, "dialogues": 2, "warmup": 2, "seed": 5, "save_every": 3, "check_every": 100, "learning_rate": 5e-3}


def recipe(**changes):
    from agentkit.training.train import Recipe

    return replace(Recipe(**FEW), **changes)


def run(out, base, made, *, stop_after=None, **options):
    """Train on the owner thread; `stop_after` sets the stop event once that step has been reported."""
    from agentkit.training.train import train

    stop, rows = threading.Event(), []

    def on_step(row):
        rows.append(row)
        if row["step"] == stop_after:
            stop.set()

    return owner().call(lambda: train(out, base, DATA, made, on_step=on_step, stop=stop, **options)), rows


def adapter(out, name="adapter"):
    """Arrays of a saved file, as numpy."""

    def read():
        import mlx.core as mx
        import numpy as np

        return {key: np.array(value) for key, value in mx.load(str(out / f"{name}.safetensors")).items()}

    return owner().call(read)


def steps(out):
    return [json.loads(line)["step"] for line in (out / "log.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def unbroken(llama, tmp_path_factory):
    """A whole run of eight steps: its folder."""
    out = tmp_path_factory.mktemp("unbroken")
    run(out, llama, recipe())
    return out


def test_the_loss_falls(llama, tmp_path):
    last, rows = run(tmp_path, llama, recipe(steps=40, check_every=20, learning_rate=2e-2))
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


def test_the_same_seed_gives_the_same_adapter_and_another_another(llama, unbroken, tmp_path):
    run(tmp_path / "again", llama, recipe())
    run(tmp_path / "other", llama, recipe(seed=6))
    one, two, three = adapter(unbroken), adapter(tmp_path / "again"), adapter(tmp_path / "other")
    assert all((one[name] == two[name]).all() for name in one)
    assert any((one[name] != three[name]).any() for name in one)


@pytest.mark.parametrize("after", [1, 3, 5])
def test_stopped_and_resumed_it_ends_as_an_unbroken_run(llama, unbroken, tmp_path, after):
    """The stop comes while a step is being reported, as Ctrl-C may; that step is saved."""
    run(tmp_path, llama, recipe(), stop_after=after)
    assert steps(tmp_path) == list(range(1, after + 1))
    last, rows = run(tmp_path, llama, recipe())
    assert [row["step"] for row in rows] == list(range(after + 1, 9)), "no step is done twice"
    assert steps(tmp_path) == list(range(1, 9)) and last["step"] == 8
    for name in ("adapter", "state"):
        one, two = adapter(unbroken, name), adapter(tmp_path, name)
        assert one.keys() == two.keys()
        assert max(abs(one[key] - two[key]).max() for key in one) <= 1e-6


KILLED = """
import sys
from pathlib import Path
from agentkit.models.blas import use_fast_blas
use_fast_blas()
from agentkit.training.train import Recipe, train
train(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), Recipe(**eval(sys.argv[4])), on_step=lambda row: print(row["step"], flush=True))
"""


def test_killed_without_warning_it_goes_on_from_the_last_save(llama, unbroken, tmp_path):
    """kill -9 after step 5, saved at 3: steps 4 and 5 are done again and stand once in the log."""
    code = [sys.executable, "-c", KILLED, str(tmp_path), str(llama), str(DATA), str(FEW | {"steps": 1000, "decay": 8 / 1000})]
    with subprocess.Popen(code, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        for line in process.stdout:
            if int(line) == 5:
                break
        process.send_signal(signal.SIGKILL)
    done = len(steps(tmp_path))
    assert done >= 5
    _, rows = run(tmp_path, llama, recipe(steps=done + 3))
    assert rows[0]["step"] == 3 * (done // 3) + 1
    assert steps(tmp_path) == list(range(1, done + 4))


def test_a_finished_run_is_not_trained_further_and_fresh_starts_anew(llama, unbroken, tmp_path):
    for file in unbroken.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    before = adapter(tmp_path)
    last, rows = run(tmp_path, llama, recipe())
    assert rows == [] and last == {"step": 8}
    _, rows = run(tmp_path, llama, recipe(steps=2), resume=False)
    assert [row["step"] for row in rows] == [1, 2]
    assert steps(tmp_path) == [1, 2], "the log is that of the new run"
    assert any((before[name] != value).any() for name, value in adapter(tmp_path).items())


def test_it_can_start_from_another_adapter(llama, unbroken, tmp_path):
    _, [row] = run(tmp_path, llama, recipe(steps=1, learning_rate=1e-9), init_from=unbroken / "adapter.safetensors")
    one, two = adapter(unbroken), adapter(tmp_path)
    assert row["step"] == 1
    assert max(abs(one[name] - two[name]).max() for name in one) < 1e-4


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


def test_the_command_stops_on_a_signal_and_goes_on(llama, tmp_path):
    """`agentkit train tools`, interrupted: exit code 0, everything saved, and the same command finishes."""
    code = ("import sys; from pathlib import Path; import agentkit.models.bundled as b; b.bundled_folder = lambda adapter: Path(sys.argv.pop(1))\n"
            "from agentkit.cli.main import main; sys.exit(main())")
    command = [sys.executable, "-c", code, str(llama), "train", "tools", "--out", str(tmp_path), "--data", str(DATA),
               "--rank", "4", "--dialogues", "2", "--steps"]
    with subprocess.Popen([*command, "100000"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        while not (tmp_path / "log.jsonl").exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        told = process.stdout.read()
    assert process.returncode == 0
    done = len(steps(tmp_path))
    assert f"step {done} of 100000" in told
    got = subprocess.run([*command, str(done + 2)], capture_output=True, text=True)
    assert got.returncode == 0 and f"step {done + 2} of {done + 2}" in got.stdout, got.stderr
    assert steps(tmp_path) == list(range(1, done + 3))
