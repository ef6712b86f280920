"""`load_model`: one name in, a LangChain chat model out."""

import difflib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from agentkit.models import backends, catalog, hub
from agentkit.models.errors import AgentkitError, BadField, ModelUnavailable, NotEnoughMemory
from agentkit.models.profile import GenerationProfile

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def load_model(
    name: str | Path = "bundled",
    *,
    profile: GenerationProfile | None = None,
    confirm: bool = False,
    kv_bits: int | None = None,
    memory: int | None = None,
) -> "BaseChatModel":
    """The chat model that `name` stands for, with `profile` as its settings (default: the catalog's for it).

    `name` is one of: a name of the catalog (`bundled`, `qwen3-14b`, ...), the folder of an MLX model, a hub repository
    `organisation/model`, or a backend: `openai:MODEL`, `anthropic:MODEL`, `ollama:MODEL`, `http://host:port/v1[#MODEL]`.
    Local models are shared: loading one again gives another chat object on the same weights. `kv_bits` quantises a
    local model's cache. Naming a larger model is choosing it: it is downloaded if it is not here.

    Raises `ModelUnavailable` (unknown, incomplete, no network, optional package or key missing) and, unless `confirm`,
    `NotEnoughMemory`. `memory` is this machine's, in bytes; a test may give another.
    """
    name = str(name).strip()
    profile = profile or catalog.profile_for(name)
    if backends.is_backend(name):
        if kv_bits is not None:
            raise BadField(f"kv_bits is {kv_bits!r}; {name} keeps its own cache, so leave it out")
        return backends.connect(name, profile)
    folder, shown = _local(name, confirm, catalog.machine_memory() if memory is None else memory)
    try:
        from agentkit.models.chat import LocalChatModel

        return LocalChatModel.load(folder, name=shown, profile=profile, kv_bits=kv_bits)
    except AgentkitError:
        raise
    except (ValueError, TypeError, KeyError, OSError, RuntimeError) as error:
        # mlx-lm's words for an unknown architecture, an incomplete config, weights that do not match or are damaged.
        raise ModelUnavailable(f"{name} cannot be loaded: {str(error).splitlines()[0] or error!r}") from error


def _local(name: str, confirm: bool, memory: int) -> tuple[Path, str]:
    """The folder to load, and the name the model goes by."""
    if entry := catalog.find(name):
        if catalog.fits(entry, memory) == "too large":
            _refuse(entry.name, entry.memory_gb, memory, confirm)
        if entry.repo is None:
            from agentkit.models.bundled import bundled_folder

            return bundled_folder(), entry.name
        return hub.fetch(entry.repo), entry.name
    path = Path(name).expanduser()
    if name and path.is_dir():
        if reason := hub.problem(path):
            raise ModelUnavailable(f"{name} is not an MLX model folder: {reason}")
        _check_weights(name, hub.weight_bytes(path), memory, confirm)
        return path.resolve(), path.resolve().name
    if name.startswith((".", "~", "/")) or path.is_file():
        what = "is a file; name the folder it lies in" if path.is_file() else "does not exist"
        raise ModelUnavailable(f"{name} {what}: a folder with config.json, tokenizer.json and model.safetensors")
    if _REPO.fullmatch(name):
        folder = hub.fetch(name, before=lambda size: _check_weights(name, size, memory, confirm))
        _check_weights(name, hub.weight_bytes(folder), memory, confirm)
        return folder, name
    raise ModelUnavailable(_unknown(name))


def _check_weights(name: str, weights: int, memory: int, confirm: bool) -> None:
    # A rule of thumb for models outside the catalog: a quarter on top for cache and activations, and room for the rest.
    needed = weights * 1.25 + 1.5 * catalog.GIB
    if needed > memory:
        _refuse(name, needed / catalog.GIB, memory, confirm)


def _refuse(name: str, needed_gb: float, memory: int, confirm: bool) -> None:
    if not confirm:
        raise NotEnoughMemory(
            f"{name} needs {needed_gb:.3g} GB of memory, this machine has {memory / catalog.GIB:.3g} GB; "
            "--yes (in Python: confirm=True) tries anyway"
        )


def _unknown(name: str) -> str:
    names = [entry.name for entry in catalog.entries()]
    kind, colon, model = name.partition(":")
    if colon:
        near = [
            f"{kind}:{model}" for kind in difflib.get_close_matches(kind.lower(), ("openai", "anthropic", "ollama"), 1)
        ]
    else:
        repos = [entry.repo.lower() for entry in catalog.entries() if entry.repo]
        near = [catalog.find(match).name for match in difflib.get_close_matches(name.lower(), names + repos, 1)]
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return (
        f"model {name!r} is unknown{hint} Known are {', '.join(names)}, a folder, a hub repository organisation/model, "
        f"{', '.join(catalog.BACKENDS)}"
    )
