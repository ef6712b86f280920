"""Train the tool-calling adapter: seeded, one group of dialogues a step, resumable after any kill.

A step's data depend on the seed and the step only, so a resumed run sees what an unbroken one would have seen.
"""

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import mlx.core as mx
import mlx.optimizers as optim
from mlx.utils import tree_flatten

from agentkit.models.errors import AgentkitError
from agentkit.training import catalog, dialogues, lora, packing, values

VALIDATION_GROUPS = 8


@dataclass(frozen=True)
class Recipe:
    """What an adapter was trained with. `decay` is the last share of the steps, in which the rate falls to zero."""

    steps: int = 1200
    rank: int = 16
    scale: float = 2.0
    learning_rate: float = 8e-4
    warmup: int = 30
    decay: float = 0.35
    dialogues: int = 8
    seed: int = 7
    save_every: int = 50
    check_every: int = 150


def rate(recipe: Recipe, step: int) -> float:
    """Learning rate at a step: linear warm-up, constant, linear decay (as in MiniCPM's warmup-stable-decay)."""
    start = recipe.steps * (1 - recipe.decay)
    falling = (recipe.steps - step) / max(1, recipe.steps - start)
    return recipe.learning_rate * min(1.0, (step + 1) / recipe.warmup, max(0.0, falling))


def batch(corpus: catalog.Corpus, tokenizer, recipe: Recipe, step: int) -> lora.Packed:
    """The group of one step; steps below zero are the validation groups, drawn from the same set."""
    rng = values.seed(recipe.seed * 1_000_003 + step)
    return packing.pack(tokenizer, dialogues.group(corpus, rng, recipe.dialogues))


def train(out: Path, base: Path, data: Path, recipe: Recipe, *, resume: bool = True, init_from: Path | None = None,
          on_step: Callable[[dict], None] = lambda row: None, stop: threading.Event | None = None) -> dict:
    """Train until `recipe.steps` or `stop`; writes `adapter.safetensors`, `state.safetensors` and `log.jsonl` to `out`.

    base: mlx-lm folder of the untouched model; data: the fine-tuning set. Returns the last log row.
    """
    from transformers import AutoTokenizer

    corpus = catalog.load(data)
    if corpus.problems or not corpus.tools:
        raise AgentkitError(f"fine-tuning set {data}: " + ("; ".join(corpus.problems[:3]) or "holds no tools"))
    out.mkdir(parents=True, exist_ok=True)
    weights = mx.load(str(base / "model.safetensors"))
    config = json.loads((base / "config.json").read_text())
    tokenizer = AutoTokenizer.from_pretrained(base)
    optimizer = optim.Adam(learning_rate=recipe.learning_rate, betas=[0.9, 0.98])
    adapter, step = _start(out, weights, recipe, optimizer, resume, init_from)
    _cut_log(out / "log.jsonl", step)
    gradient = mx.value_and_grad(lora.loss)
    row = {"step": step}
    while step < recipe.steps and not (stop and stop.is_set()):
        began = time.perf_counter()
        packed = batch(corpus, tokenizer, recipe, step)
        value, grads = gradient(adapter, weights, config, recipe.scale, packed)
        grads, norm = optim.clip_grad_norm(grads, 1.0)
        optimizer.learning_rate = rate(recipe, step)
        adapter = optimizer.apply_gradients(grads, adapter)
        mx.eval(adapter, optimizer.state, value, norm)
        step += 1
        row = {"step": step, "loss": round(value.item(), 4), "norm": round(norm.item(), 3), "rate": rate(recipe, step - 1),
               "tokens": packed.tokens.size, "dialogues": len(packed.spans), "seconds": round(time.perf_counter() - began, 2)}
        if step % recipe.check_every == 0 or step == recipe.steps:
            row["validation"] = validate(adapter, weights, config, corpus, tokenizer, recipe)
        with (out / "log.jsonl").open("a") as log:
            log.write(json.dumps(row) + "\n")
        on_step(row)
        # After the report: a stop that comes during it must not lose the step.
        if step % recipe.save_every == 0 or step == recipe.steps or (stop and stop.is_set()):
            save(out, adapter, optimizer, recipe, step)
    return row


def _cut_log(log: Path, step: int) -> None:
    """Drop the rows behind `step`: after a kill those steps are done again, and a fresh run starts a fresh log."""
    if log.is_file():
        kept = [line for line in log.read_text().splitlines(True) if line.endswith("\n") and json.loads(line)["step"] <= step]
        log.write_text("".join(kept))


def _start(out, weights, recipe, optimizer, resume, init_from):
    state = out / "state.safetensors"
    if resume and state.is_file():
        loaded, meta = mx.load(str(state), return_metadata=True)
        before = json.loads(meta["recipe"])
        for name in ("rank", "scale", "seed"):
            if before[name] != getattr(recipe, name):
                raise AgentkitError(f"{name} is {getattr(recipe, name)}, but {state} was trained with {before[name]}: "
                                    "give that value, another --out, or --fresh")
        if init_from:
            raise AgentkitError(f"--init-from would not be used, since {state} exists: add --fresh or give another --out")
        adapter = {k.removeprefix("adapter/"): v for k, v in loaded.items() if k.startswith("adapter/")}
        optimizer.init(adapter)
        optimizer.state = _optimizer_state(loaded)
        return adapter, int(meta["step"])
    if init_from:
        loaded = mx.load(str(init_from))
        return {k: v.astype(mx.float32) for k, v in loaded.items()}, 0
    return lora.init(weights, recipe.rank, recipe.seed), 0


def _optimizer_state(loaded: dict) -> dict:
    """Adam's state, as it was flattened by `save`: its own scalars, and m and v of each of the adapter's arrays.

    The dots in those arrays' names are no levels of a tree; read as such, the moments would be lost in silence.
    """
    state: dict = {}
    for key, value in loaded.items():
        if key.startswith("optimizer/"):
            name, _, part = key.removeprefix("optimizer/").rpartition(".")
            (state.setdefault(name, {}) if name else state)[part] = value
    return state


def validate(adapter, weights, config, corpus, tokenizer, recipe) -> float:
    """Mean loss over a few fixed groups that training never draws (negative steps)."""
    losses = [lora.loss(adapter, weights, config, recipe.scale, batch(corpus, tokenizer, recipe, -1 - i)).item()
              for i in range(VALIDATION_GROUPS)]
    return round(sum(losses) / len(losses), 4)


def save(out: Path, adapter: dict, optimizer, recipe: Recipe, step: int) -> None:
    """Write the resumable state, then the adapter alone in float16; each by rename, so a kill leaves the older one."""
    flat = {"adapter/" + k: v for k, v in adapter.items()}
    flat |= {"optimizer/" + k: v for k, v in tree_flatten(optimizer.state)}
    meta = {"step": str(step), "scale": str(recipe.scale), "recipe": json.dumps(asdict(recipe))}
    _write(out / "state.safetensors", flat, meta)
    _write(out / "adapter.safetensors", {k: v.astype(mx.float16) for k, v in adapter.items()}, meta)


def _write(path: Path, arrays: dict, meta: dict) -> None:
    place = path.with_name(".new-" + path.name)
    mx.save_safetensors(str(place), arrays, meta)
    os.replace(place, path)
