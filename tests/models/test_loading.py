import json
import os
import shutil
import subprocess
import sys

import pytest

from agentkit.models import load_model
from agentkit.models.catalog import GIB, entries
from agentkit.models.errors import AgentkitError, BadField, ModelUnavailable, NotEnoughMemory
from agentkit.models.profile import GenerationProfile
from agentkit.models.server import free_port


def refused(name, error=ModelUnavailable, **options):
    """The one line with which a name is refused."""
    with pytest.raises(error) as caught:
        load_model(name, **options)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


@pytest.mark.parametrize(
    "name, near",
    [
        ("bundeld", "bundled"),
        ("Qwen3-14", "qwen3-14b"),
        ("qwen3.5_9b", "qwen3.5-9b"),
        ("opnai:gpt-4", "openai:gpt-4"),
        ("olama:llama3", "ollama:llama3"),
    ],
)
def test_an_unknown_name_lists_the_known_and_the_nearest(name, near):
    text = refused(name)
    assert f"did you mean {near!r}?" in text
    assert all(entry.name in text for entry in entries()) and "http://host:port/v1" in text


@pytest.mark.parametrize(
    "name", ["", "   ", "zzzzzz", "c3po:r2d2", "a/b/c", "../nowhere", "~/nowhere-at-all", "/nowhere\n/at/all"]
)
def test_names_that_stand_for_nothing(name):
    with pytest.raises(ModelUnavailable):
        load_model(name)


@pytest.mark.parametrize("name", ["qwen3.6-35b", "mlx-community/Qwen3.6-35B-A3B-4bit"])
def test_too_little_memory_is_refused_before_anything_is_fetched(name):
    assert refused(name, NotEnoughMemory, memory=16 * GIB).startswith(
        "qwen3.6-35b needs 24 GB of memory, this machine has 16 GB; --yes"
    )


def test_a_confirmation_goes_past_the_memory_check(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "HF_HUB_OFFLINE" in refused("qwen3.6-35b", memory=16 * GIB, confirm=True)


def test_a_folder_needs_memory_by_its_weights(tiny_folders):
    assert "needs 1.5 GB of memory, this machine has 0.5 GB" in refused(
        tiny_folders["qwen3"], NotEnoughMemory, memory=GIB // 2
    )
    assert load_model(tiny_folders["qwen3"], memory=GIB // 2, confirm=True)


@pytest.mark.parametrize("name", ["qwen3-14b", "mlx-community/Qwen3-14B-4bit", "some-org/some-model"])
def test_offline_by_choice_offers_the_bundled_model(name, monkeypatch, tmp_path):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    text = refused(name, memory=64 * GIB)
    assert "HF_HUB_OFFLINE" in text and "'bundled'" in text


def test_no_network_offers_the_bundled_model(tmp_path):
    program = (
        "from agentkit.models import load_model\ntry: load_model('some-org/some-model')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    env = os.environ | {"HF_ENDPOINT": f"http://127.0.0.1:{free_port()}", "HF_HOME": str(tmp_path)}
    env.pop("HF_HUB_OFFLINE", None)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, check=True)
    assert done.stdout.startswith(
        "ModelUnavailable some-org/some-model is not on this machine and the hub cannot be reached"
    )
    assert "'bundled'" in done.stdout and len(done.stdout.splitlines()) == 1


@pytest.fixture
def folder(tiny_folders, tmp_path):
    return shutil.copytree(tiny_folders["qwen3"], tmp_path / "model")


@pytest.mark.parametrize(
    "file, reason",
    [("config.json", "no config.json"), ("model.safetensors", "no weights"), ("tokenizer.json", "no tokenizer")],
)
def test_a_folder_with_a_missing_file(folder, file, reason):
    (folder / file).unlink()
    assert reason in refused(folder)


@pytest.mark.parametrize(
    "config, reason",
    [
        ("{", "cannot be read"),
        ("[]", "no model_type"),
        ("{}", "no model_type"),
        ('{"model_type": "nonesuch"}', "nonesuch"),
        ('{"model_type": "qwen3"}', "cannot be loaded"),
    ],
)
def test_a_folder_with_a_bad_config(folder, config, reason):
    (folder / "config.json").write_text(config)
    assert reason in refused(folder)


def test_a_folder_that_would_run_its_own_code(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_file": "evil.py"}))
    (folder / "evil.py").write_text("raise SystemExit('ran')")
    assert "evil.py" in refused(folder)


def test_a_folder_with_a_missing_shard(folder):
    (folder / "model.safetensors.index.json").write_text(
        '{"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}'
    )
    assert "model-2.safetensors" in refused(folder)


def test_a_folder_with_damaged_weights(folder):
    (folder / "model.safetensors").write_bytes(b"not safetensors")
    assert "cannot be loaded" in refused(folder)


def test_a_file_and_a_gguf_folder(tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    assert "is a file" in refused(tmp_path / "model.gguf")
    assert "GGUF files are for Ollama" in refused(tmp_path)


def test_a_folder_and_a_hub_cache_load_and_share_their_engine(folder, tmp_path, monkeypatch):
    from huggingface_hub import constants

    profile = GenerationProfile(max_tokens=3, seed=1)
    first, second = load_model(folder, profile=profile), load_model(str(folder), profile=profile.but(max_tokens=2))
    assert first.engine is second.engine and first.name == "model"
    assert first.invoke("the quick").usage_metadata["output_tokens"] <= 3
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    home = tmp_path / "hub" / "models--some-org--tiny"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text("1" * 40)
    shutil.copytree(folder, home / "snapshots" / ("1" * 40))
    assert load_model("some-org/tiny", profile=profile).name == "some-org/tiny"


def test_the_bundled_model_keeps_its_name_and_profile():
    model = load_model("Bundled", profile=GenerationProfile(max_tokens=2, seed=1))
    answer = model.invoke("Say hello.")
    assert answer.usage_metadata["output_tokens"] <= 2 and answer.response_metadata["model_name"] == "bundled"


def test_a_backend_has_no_cache_to_quantise():
    assert "kv_bits" in refused("openai:gpt", BadField, kv_bits=4)


def test_errors_are_all_of_one_family():
    assert issubclass(ModelUnavailable, AgentkitError) and issubclass(NotEnoughMemory, AgentkitError)
