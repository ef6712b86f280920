"""Tiny random models in mlx-lm's real classes, with a tokenizer trained here: for cache, thread and thinking tests."""

import json
from pathlib import Path

THINKING_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>\n"
    "{\"name\": {{ c.function.name | tojson }}, \"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% if preopen %}<think>\n{% endif %}{% endif %}")
SPECIAL = ("<|im_start|>", "<|im_end|>")
MARKS = ("<think>", "</think>", "<tool_call>", "</tool_call>")
TEXT = ["the quick brown fox jumps over the lazy dog " * 3, "user assistant system what is the weather in Lima tomorrow",
        '{"name": "ls", "arguments": {"path": "a.txt"}}', "ภาษาไทย สวัสดี فارسی 😀 Žluťoučký"]

QWEN3 = {"model_type": "qwen3", "hidden_size": 32, "num_hidden_layers": 3, "intermediate_size": 64, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 8, "rms_norm_eps": 1e-6, "rope_theta": 10000, "max_position_embeddings": 2048,
         "tie_word_embeddings": True}
# As the bundled model, small: see agentkit/models/bundled.py.
LLAMA = {"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64, "num_attention_heads": 4,
         "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_theta": 10000, "rope_traditional": True, "max_position_embeddings": 8192,
         "tie_word_embeddings": True}
HYBRID = {"model_type": "qwen3_5", "text_config": {
    "model_type": "qwen3_5_text", "hidden_size": 32, "num_hidden_layers": 4, "intermediate_size": 64, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "rms_norm_eps": 1e-6, "max_position_embeddings": 2048, "full_attention_interval": 2,
    "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    "linear_conv_kernel_dim": 4, "tie_word_embeddings": True,
    "rope_parameters": {"type": "default", "rope_theta": 10000, "partial_rotary_factor": 0.5, "mrope_section": [1, 1, 0]}}}
SLIDING = {"model_type": "gemma3_text", "hidden_size": 32, "num_hidden_layers": 6, "intermediate_size": 64, "num_attention_heads": 4,
           "num_key_value_heads": 2, "head_dim": 8, "rms_norm_eps": 1e-6, "sliding_window": 8, "sliding_window_pattern": 3,
           "max_position_embeddings": 2048}


def make(folder: Path, config: dict, template: str = THINKING_TEMPLATE, seed: int = 0, marks: tuple = MARKS) -> Path:
    """Write a random model of `config` with a freshly trained byte-level tokenizer; returns the folder.

    `marks` are tokens of their own beside the special ones; without `<think>` a model counts as one that cannot think.
    """
    from agentkit.models.blas import use_fast_blas

    use_fast_blas()
    import mlx.core as mx
    from mlx.utils import tree_flatten
    from mlx_lm.utils import _get_classes
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=330, initial_alphabet=alphabet, show_progress=False))
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in marks])
    tokenizer.save(str(folder / "tokenizer.json"))
    end = tokenizer.token_to_id("<|im_end|>")
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|im_end|>",
        "clean_up_tokenization_spaces": False, "chat_template": template}))
    config = json.loads(json.dumps(config)) | {"eos_token_id": end}
    config.get("text_config", config)["vocab_size"] = tokenizer.get_vocab_size()
    (folder / "config.json").write_text(json.dumps(config))
    with mx.stream(mx.cpu):
        mx.random.seed(seed)
        kind, arguments = _get_classes(config)
        model = kind(arguments.from_dict(config))
        weights = {k: (mx.random.normal(v.shape) * 0.3).astype(mx.float32) if v.ndim > 1 else v for k, v in tree_flatten(model.parameters())}
        mx.eval(weights)
        mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    return folder
