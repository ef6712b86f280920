import json
import subprocess
import sys

import pytest

from agentkit.models import catalog
from agentkit.models.catalog import GIB


def test_every_entry_is_found_by_name_and_repository_in_any_case():
    for entry in catalog.entries():
        assert catalog.find(entry.name.upper()) is entry
        assert catalog.find(f" {entry.name} ") is entry
        assert entry.repo is None or catalog.find(entry.repo.lower()) is entry


@pytest.mark.parametrize("name", ["", "  ", "none", "qwen", "mlx-community/", "bundled/"])
def test_what_is_not_in_the_catalog_is_not_found(name):
    assert catalog.find(name) is None


def test_the_models_of_the_spec_have_its_abilities():
    vision = {entry.name: "vision" in entry.abilities for entry in catalog.entries()}
    assert vision == {"bundled": False, "qwen3-14b": False, "qwen3.5-9b": True, "qwen3.6-35b": True}
    assert all({"text", "tools"} <= set(entry.abilities) for entry in catalog.entries())
    json.dumps([entry.as_dict() for entry in catalog.entries()])


@pytest.mark.parametrize(
    "name, gib, verdict",
    [
        ("bundled", 8, "fits"),
        ("qwen3.5-9b", 16, "fits"),
        ("qwen3.5-9b", 8, "too large"),
        ("qwen3-14b", 24, "fits"),
        ("qwen3-14b", 16, "tight"),
        ("qwen3-14b", 8, "too large"),
        ("qwen3.6-35b", 16, "too large"),
        ("qwen3.6-35b", 24, "tight"),
        ("qwen3.6-35b", 48, "fits"),
    ],
)
def test_verdict_by_memory(name, gib, verdict):
    assert catalog.fits(catalog.find(name), gib * GIB) == verdict


def test_a_machine_that_shows_a_little_less_than_it_was_sold_with_still_counts():
    assert catalog.fits(catalog.find("qwen3-14b"), int(23.4 * GIB)) == "fits"


@pytest.mark.parametrize(
    "platform, gib, name",
    [
        ("linux", 64, "bundled"),
        ("darwin", 8, "bundled"),
        ("darwin", 16, "qwen3.5-9b"),
        ("darwin", 24, "qwen3-14b"),
        ("darwin", 64, "qwen3-14b"),
    ],
)
def test_what_is_suggested(platform, gib, name):
    assert catalog.suggested_name(gib * GIB, platform) == name


def test_the_suggestion_is_the_default_only_once_it_is_on_the_disk(monkeypatch, tmp_path):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    assert catalog.default_name(24 * GIB, "darwin") == "bundled"
    in_hub_cache(tmp_path, catalog.find("qwen3-14b").repo, shards=2)
    assert catalog.default_name(24 * GIB, "darwin") == "qwen3-14b"
    assert catalog.default_name(24 * GIB, "linux") == "bundled"


def test_a_broken_download_does_not_count_as_on_disk(monkeypatch, tmp_path):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    folder = in_hub_cache(tmp_path, "mlx-community/Qwen3-14B-4bit", shards=2)
    assert catalog.on_disk(catalog.find("qwen3-14b"))
    (folder / "model-2.safetensors").unlink()
    assert not catalog.on_disk(catalog.find("qwen3-14b"))


def in_hub_cache(root, repo, shards):
    """A repository as the hub's cache lays it out, with empty weight files."""
    home = root / f"models--{repo.replace('/', '--')}"
    folder = home / "snapshots" / ("0" * 40)
    folder.mkdir(parents=True)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text("0" * 40)
    (folder / "config.json").write_text('{"model_type": "qwen3"}')
    (folder / "tokenizer.json").write_text("{}")
    names = [f"model-{i + 1}.safetensors" for i in range(shards)]
    for name in names:
        (folder / name).write_bytes(b"")
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {f"w{i}": name for i, name in enumerate(names)}})
    )
    return folder


def test_reading_the_catalog_imports_neither_mlx_nor_langchain():
    program = (
        "import sys, agentkit.models, agentkit.models.catalog as c; c.entries(); agentkit.models.load_model; "
        "heavy = ('mlx', 'mlx_lm', 'langchain_core', 'huggingface_hub', 'transformers'); "
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
