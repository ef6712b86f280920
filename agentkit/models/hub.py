"""Model folders in mlx-lm's format: look over one on the disk, find one in the hub's cache, fetch one from the hub."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from agentkit.models.errors import ModelUnavailable

# mlx-lm's list without *.py: code that comes with a model is neither fetched nor run.
FILES = ["*.json", "model*.safetensors", "tokenizer.model", "*.tiktoken", "*.txt", "*.jsonl", "*.jinja"]
OFFLINE_HINT = "the model 'bundled' works offline"


def problem(folder: Path) -> str | None:
    """Why mlx-lm could not load this folder, in a few words; None if all parts are there."""
    try:
        config = json.loads((folder / "config.json").read_text())
    except FileNotFoundError:
        has_gguf = any(folder.glob("*.gguf"))
        return "it has no config.json" + (" (GGUF files are for Ollama or LM Studio, not for MLX)" if has_gguf else "")
    except (OSError, ValueError) as error:
        return f"its config.json cannot be read ({error})"
    if not isinstance(config, dict) or "model_type" not in config:
        return "its config.json names no model_type"
    if config.get("model_file"):
        return f"it wants to run its own Python code ({config['model_file']}), which agentkit does not do"
    if not list(folder.glob("model*.safetensors")):
        return "it has no weights (model*.safetensors)"
    if absent := _absent_shards(folder):
        return f"{len(absent)} of its weight files are missing ({absent[0]})"
    if not (folder / "tokenizer.json").is_file() and not (folder / "tokenizer.model").is_file():
        return "it has no tokenizer.json"
    return None


def _absent_shards(folder: Path) -> list[str]:
    try:
        shards = set(json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"].values())
    except (OSError, ValueError, KeyError):
        return []
    return sorted(shard for shard in shards if not (folder / shard).is_file())


def weight_bytes(folder: Path) -> int:
    """Bytes of the weights in a model folder."""
    return sum(path.stat().st_size for path in folder.glob("model*.safetensors"))


def folder_on_disk(repo: str) -> Path | None:
    """The hub cache's folder of a repository, if it is there and whole; never goes to the network."""
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(repo, allow_patterns=FILES, local_files_only=True))
    except (OSError, ValueError):
        return None
    return folder if problem(folder) is None else None


def fetch(repo: str, before: Callable[[int], None] = lambda weight_bytes: None) -> Path:
    """The folder of a hub repository, downloaded if need be (progress on stderr).

    `before` sees the size of the weights ahead of a download and may raise. Raises `ModelUnavailable` without a
    network, for an unknown or closed repository, for one without MLX weights and for a full disk.
    """
    if folder := folder_on_disk(repo):
        return folder
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        raise ModelUnavailable(f"{repo} is not on this machine and HF_HUB_OFFLINE is set; {OFFLINE_HINT}")
    import httpx2
    from huggingface_hub import constants, snapshot_download

    try:
        plan = snapshot_download(repo, allow_patterns=FILES, dry_run=True)
        weights = sum(file.file_size for file in plan if file.filename.endswith(".safetensors"))
        if not weights:
            raise ModelUnavailable(f"{repo} holds no weights that MLX reads (model*.safetensors)")
        before(weights)
        _check_disk(repo, sum(file.file_size for file in plan if file.will_download), Path(constants.HF_HUB_CACHE))
        folder = Path(snapshot_download(repo, allow_patterns=FILES))
    except (OSError, ValueError, httpx2.HTTPError) as error:
        if isinstance(error, ModelUnavailable):
            raise
        raise ModelUnavailable(_reason(repo, error)) from error
    if reason := problem(folder):
        raise ModelUnavailable(f"{repo} was downloaded, but {reason}")
    return folder


def _check_disk(repo: str, needed: int, cache: Path) -> None:
    while not cache.exists():
        cache = cache.parent
    free = shutil.disk_usage(cache).free
    if free < needed * 1.05:
        raise ModelUnavailable(f"{repo} needs {needed / 1e9:.1f} GB on disk, {cache} has {free / 1e9:.1f} GB free")


def _reason(repo: str, error: Exception) -> str:
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, HFValidationError, RepositoryNotFoundError

    # A dry run wraps what went wrong.
    error = error.__cause__ or error
    if isinstance(error, GatedRepoError):
        return f"{repo} asks you to accept its terms on huggingface.co first, then: hf auth login"
    if isinstance(error, RepositoryNotFoundError):
        return f"the hub has no model {repo} (or it is private)"
    if isinstance(error, HFValidationError):
        return f"{repo!r} is no hub repository name; it is written organisation/model"
    if isinstance(error, HfHubHTTPError):
        return f"the hub refused {repo} ({str(error).splitlines()[0]}); {OFFLINE_HINT}"
    if isinstance(error, OSError) and error.errno is not None and not isinstance(error, ConnectionError):
        return f"{repo} could not be stored: {error}"
    return f"{repo} is not on this machine and the hub cannot be reached; {OFFLINE_HINT}"
