"""The engine on tiny random models in mlx-lm's real classes: thinking budget, cancel, seeds, caps, threads, exit."""

import asyncio
import os
import subprocess
import sys
import threading

import pytest

from agentkit.models.errors import BadField, ContextFull
from agentkit.models.owner import owner

THINKS = 'start: <think> /(.|\\n)*/\n'


def ids(engine, text):
    return engine.tokenizer.encode(text, add_special_tokens=False)


def test_same_seed_same_text_and_another_seed_another(generate):
    runs = [[p.token for p in generate("qwen3", "the quick", temperature=1.5, seed=seed)[1]] for seed in (3, 3, 4)]
    assert runs[0] == runs[1] != runs[2]


def test_greedy_agrees_with_mlx_lm(engines, generate):
    import mlx_lm

    engine = engines["qwen3"]
    tokens = ids(engine, "the quick brown fox")
    reference = owner().call(lambda: [r.token for r in mlx_lm.stream_generate(engine.model, engine.tokenizer, tokens, max_tokens=12)])
    _, pieces, _ = generate("qwen3", tokens, temperature=0, repetition_penalty=1, max_tokens=12)
    assert [p.token for p in pieces] == reference[:12]


def test_max_tokens_ends_with_length(generate):
    _, pieces, finished = generate("qwen3", "the quick", max_tokens=5)
    assert (len(pieces), finished.generated, finished.reason) == (5, 5, "length")


def test_closing_the_stream_cancels_within_one_token(engines, generate):
    engine, cancel, seen = engines["qwen3"], threading.Event(), []
    from agentkit.models.engine import Piece, Request
    from agentkit.models.profile import GenerationProfile

    profile = GenerationProfile(max_tokens=500, seed=1)
    for item in owner().stream(lambda _: engine.stream(Request(ids(engine, "the"), profile, cancel=cancel))):
        if isinstance(item, Piece):
            seen.append(item)
            if len(seen) == 3:
                cancel.set()
                at_cancel = len(engine_pieces := seen)
    assert item.reason == "cancel"
    # The consumer may be a few tokens behind the owner thread's queue, the engine itself stops at once.
    assert item.generated < 500
    assert at_cancel == 3 and engine_pieces is seen


def test_the_engine_checks_cancel_before_every_token(engines):
    """On the owner thread itself, with no queue between: after cancel not one more token comes."""
    from agentkit.models.engine import Finished, Piece, Request
    from agentkit.models.profile import GenerationProfile

    engine, cancel = engines["qwen3"], threading.Event()

    def run():
        after = []
        for item in engine.stream(Request(ids(engine, "the"), GenerationProfile(max_tokens=100, seed=1), cancel=cancel)):
            if cancel.is_set():
                after.append(item)
            if isinstance(item, Piece):
                cancel.set()
        return after

    after = owner().call(run)
    assert [type(item) for item in after] == [Finished] and after[0].reason == "cancel"


def test_mlx_vlm_1911_budget_arms_on_an_opener_the_model_emits(engines, generate):
    """A template without an opener, the model writes <think> itself; the grammar makes the random model do so."""
    _, pieces, finished = generate("qwen3", "the quick", grammar=THINKS, thinking_budget=20, max_tokens=60)
    engine = engines["qwen3"]
    opener, closer = engine.tokenizer.think_start_tokens[0], engine.tokenizer.think_end_tokens[0]
    tokens = [p.token for p in pieces]
    assert tokens[0] == opener
    assert tokens.index(closer) == 21, "opener, 20 thought tokens, forced close"
    assert pieces[21].origin == "forced"
    assert finished.thinking == 20, "a thought reopened on a spent budget is closed at once"


def test_budget_arms_on_a_pre_opened_thought_and_zero_closes_at_once(engines, generate):
    engine = engines["qwen3"]
    closer = engine.tokenizer.think_end_tokens[0]
    opened = ids(engine, "the quick<think>\n")
    _, pieces, finished = generate("qwen3", opened, thinking_budget=7, max_tokens=30)
    assert [p.token for p in pieces].index(closer) <= 7
    assert finished.thinking <= 7
    _, pieces, finished = generate("qwen3", opened, thinking_budget=0, max_tokens=5)
    assert (pieces[0].token, pieces[0].origin, finished.thinking) == (closer, "forced", 0)


def test_mlx_vlm_1819_text_after_the_forced_close_is_counted_and_a_nudge_comes_before_it(engines, generate):
    engine = engines["qwen3"]
    _, pieces, finished = generate("qwen3", ids(engine, "the<think>"), thinking_budget=3, thinking_nudge="the dog", max_tokens=30)
    forced = [p for p in pieces if p.origin == "forced"]
    assert "".join(p.text for p in forced) == "the dog</think>"
    at = pieces.index(forced[-1])
    assert finished.after_forced_close == len(pieces) - at - 1 > 0


def test_mlx_vlm_1224_the_reported_budget_is_enforced_for_any_value(engines, generate):
    for budget in (1, 2, 5, 13):
        _, _, finished = generate("qwen3", ids(engines["qwen3"], "the<think>"), thinking_budget=budget, max_tokens=40)
        assert finished.thinking <= budget


def test_the_budget_stops_counting_when_a_call_begins():
    from agentkit.models.thinking import ThinkingBudget

    budget = ThinkingBudget(3, (1,), (2,), call=(3,))
    budget.begin([9, 1])
    assert [(budget.saw(t), budget.at_call) for t in (7, 3, 8, 8, 8, 8)] == [([], t == 3) for t in (7, 3, 8, 8, 8, 8)]
    assert not budget.forced and budget.used == 1


def test_mlx_lm_1573_quantised_sliding_window_is_refused_at_load(tiny_folders):
    from agentkit.models.engine import Engine

    with pytest.raises(BadField, match=r"kv_bits=8 cannot be used with this model: layers 0, 1.*sliding window"):
        owner().call(lambda: Engine(tiny_folders["sliding"], kv_bits=8))


def test_quantised_hybrid_says_which_layers_stay_as_they_are(engines):
    from mlx_lm.models.cache import make_prompt_cache

    from agentkit.models import kv_cache

    note = owner().call(lambda: kv_cache.check(make_prompt_cache(engines["hybrid"].model), 8))
    assert note == "2 layers quantised to 8 bits; layers 0, 2 keep a recurrent state, unquantised"
    with pytest.raises(BadField, match="kv_bits is 7"):
        owner().call(lambda: kv_cache.check([], 7))


def test_mlx_lm_883_a_prompt_over_the_context_is_refused_before_work(engines, generate):
    with pytest.raises(ContextFull, match="has 2048 tokens; this model holds 2048"):
        generate("qwen3", [10] * 2048)
    _, pieces, finished = generate("qwen3", [10] * 2045, max_tokens=50)
    assert len(pieces) <= 3, "the answer is cut to the room that is left"


def test_mlx_3727_loading_and_generating_work_from_any_thread(tiny_folders):
    """Work lands on the owner thread whoever asks; eight threads at once each get their own answer."""
    from langchain_core.messages import HumanMessage

    from agentkit.models.chat import LocalChatModel

    answers = {}

    def ask(number):
        model = LocalChatModel.load(tiny_folders["qwen3"]).with_profile(max_tokens=6, seed=5, temperature=1.0)
        answers[number] = model.invoke([HumanMessage("the quick brown fox")]).content

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8 and len(set(answers.values())) == 1


def test_mlx_vlm_1134_generation_from_an_executor_thread(tiny_folders):
    from langchain_core.messages import HumanMessage

    from agentkit.models.chat import LocalChatModel

    model = LocalChatModel.load(tiny_folders["qwen3"]).with_profile(max_tokens=4, seed=5)

    async def both():
        a = asyncio.to_thread(model.invoke, [HumanMessage("the")])
        b = model.ainvoke([HumanMessage("the")])
        return await asyncio.gather(a, b)

    one, two = asyncio.run(both())
    assert one.content == two.content


EXITS = """
import sys, threading
from agentkit.models.chat import LocalChatModel
model = LocalChatModel.load(sys.argv[1]).with_profile(max_tokens=4)
worker = threading.Thread(target=lambda: model.invoke("the quick"))
worker.start()
if sys.argv[2] == "wait":
    worker.join()
"""


@pytest.mark.parametrize("batch", range(10))
def test_processes_that_generated_exit_cleanly(tiny_folders, batch):
    """20 in a row, every second one ending while its worker may still generate."""
    for how in ("wait", "leave"):
        got = subprocess.run([sys.executable, "-c", EXITS, str(tiny_folders["qwen3"]), how], capture_output=True, text=True, env=os.environ, timeout=120)
        assert got.returncode == 0, got.stderr[-500:]


def test_jundot_omlx_3011_the_penalty_reaches_as_far_as_its_window():
    """mlx-lm's default looks back 20 tokens: a token seen 25 ago is untouched there, penalised with a wider window."""
    from agentkit.models.profile import GenerationProfile

    def lowered(window):
        def work():
            import mlx.core as mx

            from agentkit.models.sampling import Sampler

            sampler = Sampler(GenerationProfile(temperature=0, repetition_penalty=1.5, repetition_window=window))
            sampler.saw(mx.array([7]))
            sampler.saw(mx.array([1] * 24))
            _, plain = Sampler(GenerationProfile(temperature=0, repetition_penalty=1))(mx.array([[1.0] * 6 + [2.0, 3.0]]))
            _, logprobs = sampler(mx.array([[1.0] * 6 + [2.0, 3.0]]))
            return (logprobs[7] - logprobs[6]).item() < (plain[7] - plain[6]).item() - 0.5

        return owner().call(work)

    assert not lowered(20)
    assert lowered(128)
    assert GenerationProfile().repetition_window >= 128


def test_the_penalty_leaves_the_prompt_alone(engines, generate):
    """What an agent writes is mostly copied: penalised prompt tokens would push it off names and paths."""
    prompt = list(range(10, 40))
    penalised = generate("qwen3", prompt, temperature=0, repetition_penalty=2.0, max_tokens=1)[1]
    plain = generate("qwen3", prompt, temperature=0, repetition_penalty=1.0, max_tokens=1)[1]
    assert penalised[0].token == plain[0].token


@pytest.mark.parametrize("text", ["ภาษาไทย", "Žluťoučký kůň 😀👩‍💻", "فارسی می‌نویسم", "naïve café"])
def test_vllm_mlx_109_multibyte_text_streams_whole(engines, generate, text):
    """The grammar makes the model write the text, token by token through the real detokenizer."""
    import json

    _, pieces, finished = generate("qwen3", "the", grammar=f"start: {json.dumps(text, ensure_ascii=False)}\n", max_tokens=200)
    assert "".join(p.text for p in pieces) == text == finished.text
    assert not any("\ufffd" in p.text for p in pieces)


def test_an_error_on_the_owner_thread_reaches_the_caller_and_the_thread_lives():
    with pytest.raises(ZeroDivisionError):
        owner().call(lambda: 1 / 0)
    assert owner().call(lambda: 5) == 5
    with pytest.raises(KeyError):
        list(owner().stream(lambda _: {}["x"]))

    def breaks(_):
        yield 1
        raise KeyError("later")

    with pytest.raises(KeyError):
        list(owner().stream(breaks))
    assert owner().call(lambda: 6) == 6
