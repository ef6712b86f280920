"""The written-out LoRA pass against mlx-lm's own Llama: same loss, right gradients, and the merge is the adapter."""

import json

import pytest

from agentkit.models.owner import owner
from agentkit.training import values
from agentkit.training.dialogues import group

SCALE = 2.0


@pytest.fixture(scope="module")
def case(llama, corpus):
    """A random adapter on the tiny Llama, and a packed group of two or more dialogues."""

    def make():
        import mlx.core as mx
        from transformers import AutoTokenizer

        from agentkit.training import lora
        from agentkit.training.packing import pack

        weights = mx.load(str(llama / "model.safetensors"))
        config = json.loads((llama / "config.json").read_text())
        adapter = lora.init(weights, 4, 1)
        mx.random.seed(2)
        adapter = {name: mx.random.normal(value.shape) * 0.05 for name, value in adapter.items()}
        small = [tool for tool in corpus.tools if len(tool.parameters) <= 2]
        made = group(type(corpus)(small, [], corpus.talk, []), values.seed(8), 4)
        packed = pack(AutoTokenizer.from_pretrained(llama), made, limit=2500)
        mx.eval(weights, adapter, packed.tokens, packed.rows, packed.targets, packed.weights)
        return weights, config, adapter, packed

    return owner().call(make)


def merged_model(llama, weights, adapter, tmp_path):
    """mlx-lm's model of the tiny Llama with the adapter merged in by agentkit.models.bundled."""
    import mlx.core as mx
    import mlx_lm

    from agentkit.models.bundled import merge

    mx.save_safetensors(str(tmp_path / "adapter.safetensors"), adapter, {"scale": str(SCALE)})
    merged = dict(weights)
    merge(merged, tmp_path / "adapter.safetensors")
    model, _ = mlx_lm.load(str(llama))
    model.load_weights(list(merged.items()))
    return model


def test_a_fresh_adapter_changes_nothing_and_covers_every_layer(case):
    weights, config, _, packed = case

    def work():
        import mlx.core as mx

        from agentkit.training import lora

        fresh = lora.init(weights, 4, 7)
        zero = {name: mx.zeros(value.shape) for name, value in fresh.items()}
        again = lora.init(weights, 4, 7)
        same = all(mx.array_equal(fresh[name], again[name]).item() for name in fresh)
        return lora.loss(fresh, weights, config, SCALE, packed).item(), lora.loss(zero, weights, config, SCALE, packed).item(), len(fresh), same

    fresh, zero, count, same = owner().call(work)
    assert fresh == zero
    assert count == config["num_hidden_layers"] * 7 * 2
    assert same, "one seed, one start"


def test_the_packed_loss_is_that_of_mlx_lm_dialogue_by_dialogue(llama, case, tmp_path):
    """Each dialogue runs through mlx-lm's class on its own, behind the prefix; together they give the packed loss."""
    weights, config, adapter, packed = case

    def work():
        import mlx.core as mx
        import mlx.nn as nn

        from agentkit.training import lora

        model = merged_model(llama, weights, adapter, tmp_path)
        tokens, total = packed.tokens, 0.0
        for start, stop in packed.spans:
            row = mx.concatenate([tokens[:packed.prefix], tokens[start:stop]])
            logits = model(row[None])[0]
            for at, target, weight in zip(packed.rows.tolist(), packed.targets.tolist(), packed.weights.tolist()):
                if start <= at < stop:
                    total += weight * nn.losses.cross_entropy(logits[at - start + packed.prefix], mx.array(target)).item()
        return total / packed.weights.sum().item(), lora.loss(adapter, weights, config, SCALE, packed).item()

    reference, packed_loss = owner().call(work)
    assert len(packed.spans) >= 2 and packed.prefix > 50
    assert packed_loss == pytest.approx(reference, rel=1e-3)


def test_dialogues_do_not_see_each_other(case):
    """Exchanging the tokens of one dialogue leaves the loss of the others as it was."""
    weights, config, adapter, packed = case

    def work():
        from dataclasses import replace

        import mlx.core as mx

        from agentkit.training import lora

        a, b = packed.spans[0]
        second = [i for i, row in enumerate(packed.rows.tolist()) if row >= b]
        only = mx.array(second)
        rest = replace(packed, rows=packed.rows[only], targets=packed.targets[only], weights=packed.weights[only])
        tokens = packed.tokens.tolist()
        other = replace(rest, tokens=mx.array(tokens[:a] + [5] * (b - a) + tokens[b:]))
        prefix = replace(rest, tokens=mx.array([5] * a + tokens[a:]))
        return [lora.loss(adapter, weights, config, SCALE, batch).item() for batch in (rest, other, prefix)]

    before, after, without_prefix = owner().call(work)
    assert after == pytest.approx(before, abs=1e-6)
    assert abs(without_prefix - before) > 1e-3, "the prefix is seen"


@pytest.mark.parametrize("name", ["layers.0.self_attn.q_proj.lora_a", "layers.0.self_attn.k_proj.lora_b", "layers.1.self_attn.v_proj.lora_b",
                                  "layers.1.self_attn.o_proj.lora_a", "layers.0.mlp.gate_proj.lora_b", "layers.1.mlp.up_proj.lora_a",
                                  "layers.1.mlp.down_proj.lora_b"])
def test_gradients_agree_with_finite_differences(case, name):
    weights, config, adapter, packed = case
    name = "model." + name

    def work():
        import mlx.core as mx

        from agentkit.training import lora

        grads = mx.grad(lora.loss)(adapter, weights, config, SCALE, packed)
        grad = grads[name]
        # Along the gradient the slope is its length: one number that every entry of it has a share in.
        direction = grad / mx.sqrt((grad * grad).sum())
        step = 2e-2
        up, down = (lora.loss(adapter | {name: adapter[name] + sign * step * direction}, weights, config, SCALE, packed).item() for sign in (1, -1))
        return mx.sqrt((grad * grad).sum()).item(), (up - down) / (2 * step)

    length, slope = owner().call(work)
    assert length > 1e-4
    assert slope == pytest.approx(length, rel=0.03)


def test_the_merged_adapter_gives_the_logits_of_the_lora_pass(llama, case, tmp_path):
    """A plain pass with the low-rank terms beside each weight, against mlx-lm's class on the merged weights."""
    weights, _, adapter, packed = case

    def work():
        import mlx.core as mx
        import mlx_lm
        from mlx_lm.tuner.lora import LoRALinear

        model, _ = mlx_lm.load(str(llama))
        for path, module in model.named_modules():
            if f"{path}.lora_a" in adapter:
                parent = model
                *route, last = path.split(".")
                for part in route:
                    parent = parent[int(part)] if isinstance(parent, list) else getattr(parent, part)
                layer = LoRALinear.from_base(module, r=4, scale=SCALE)
                layer.lora_a, layer.lora_b = adapter[f"{path}.lora_a"], adapter[f"{path}.lora_b"]
                setattr(parent, last, layer)
        row = packed.tokens[None, :packed.spans[0][1]]
        plain, _ = mlx_lm.load(str(llama))
        one, two, three = model(row), merged_model(llama, weights, adapter, tmp_path)(row), plain(row)
        return mx.abs(one - two).max().item(), mx.abs(one - three).max().item()

    distance, effect = owner().call(work)
    assert distance < 1e-3
    assert effect > 0.05, "the adapter does something"


def test_the_fast_exponentials_are_close(case):
    def work():
        import mlx.core as mx

        from agentkit.training import lora

        x = mx.linspace(-30, 30, 4001)
        rows = mx.random.normal((50, 300)) * 6
        sig = mx.abs(lora.sigmoid(x) - mx.sigmoid(x)).max().item()
        soft = mx.abs(lora.softmax(rows) - mx.softmax(rows, -1)).max().item()
        masked = lora.softmax(mx.array([[0.0, 1.0, -1e9, -float("inf")]]))
        return sig, soft, masked.tolist()

    sig, soft, [masked] = owner().call(work)
    assert sig < 1e-3 and soft < 1e-3
    assert masked[2] < 1e-6 and masked[3] < 1e-6, "what is masked stays out"
    assert sum(masked) == pytest.approx(1, abs=1e-5)
