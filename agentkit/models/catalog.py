"""The catalog: which models agentkit knows by a short name, what they can do and what they need.

Command line, widgets and `load_model` all read this one list. Nothing here loads or downloads anything.
"""

import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from agentkit.models.profile import GenerationProfile

GIB = 2**30
BACKENDS = ("openai:MODEL", "anthropic:MODEL", "ollama:MODEL", "http://host:port/v1[#MODEL]")


@dataclass(frozen=True)
class Entry:
    """One model. `repo` is None for the bundled one; `weights_gb` is what is downloaded (10^9 bytes).

    `memory_gb` (2^30 bytes, as memory is sold) is the smallest machine it loads on without a confirmation, and from
    `comfortable_gb` on there is room for a long context beside other programs. `abilities` is a subset of text, tools,
    thinking, vision. `profile` holds the settings it runs under when none are given.
    """

    name: str
    repo: str | None
    bits: int
    weights_gb: float
    memory_gb: float
    comfortable_gb: float
    context: int
    abilities: tuple[str, ...]
    note: str
    profile: GenerationProfile = GenerationProfile()

    def as_dict(self) -> dict:
        """The entry as JSON-ready data."""
        return {**asdict(self), "abilities": list(self.abilities)}


_ENTRIES = (
    Entry(
        name="bundled", repo=None, bits=4, weights_gb=0.1, memory_gb=1, comfortable_gb=2, context=8192,
        abilities=("text", "tools"),
        note="SmolLM2-135M with agentkit's tool-calling adapter; works offline on any machine",
        # Calls are bound to the tools' schemas: so small a model would misspell a name now and then, and the tokens
        # that the grammar forces come faster than free ones.
        profile=GenerationProfile(constrained=True),
    ),
    Entry(
        name="qwen3.5-9b", repo="mlx-community/Qwen3.5-9B-4bit", bits=4, weights_gb=6.0, memory_gb=16,
        comfortable_gb=16, context=262144, abilities=("text", "tools", "thinking", "vision"),
        note="the small one that sees; for a Mac with 16 GB",
    ),
    Entry(
        name="qwen3-14b", repo="mlx-community/Qwen3-14B-4bit", bits=4, weights_gb=8.3, memory_gb=16, comfortable_gb=24,
        context=40960, abilities=("text", "tools", "thinking"),
        note="text only; the usual choice on a Mac with 24 GB",
    ),
    Entry(
        name="qwen3.6-35b", repo="mlx-community/Qwen3.6-35B-A3B-4bit", bits=4, weights_gb=20.4, memory_gb=24,
        comfortable_gb=36, context=262144, abilities=("text", "tools", "thinking", "vision"),
        note="3 of 35 billion weights work on a token: fast for its size",
    ),
)


def entries() -> tuple[Entry, ...]:
    """All models of the catalog, smallest first."""
    return _ENTRIES


def profile_for(name: str) -> GenerationProfile:
    """The settings a model runs under when none are given; the general ones for a name outside the catalog."""
    entry = find(str(name))
    return entry.profile if entry else GenerationProfile()


def find(name: str) -> Entry | None:
    """The entry of that short name or hub repository, in any case; None if the catalog has none."""
    wanted = name.strip().lower()
    return next((e for e in _ENTRIES if wanted in (e.name, (e.repo or "").lower()) and wanted), None)


def fits(entry: Entry, memory_bytes: int) -> str:
    """One of "fits", "tight" (loads, but little is left) or "too large" (loading asks for a confirmation)."""
    # A kernel, a hypervisor or a graphics card keeps a few percent of what is sold as 16 or 24 GB.
    memory = memory_bytes / GIB / 0.95
    if memory < entry.memory_gb:
        return "too large"
    return "fits" if memory >= entry.comfortable_gb else "tight"


def machine_memory() -> int:
    """Bytes of memory this process may use: the machine's, or the container's limit where that is lower."""
    memory = psutil.virtual_memory().total
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            memory = min(memory, int(Path(limit).read_text()))
        except (OSError, ValueError):  # no cgroups, or "max"
            continue
    return memory


def suggested_name(memory_bytes: int | None = None, platform: str = sys.platform) -> str:
    """The model this machine is best served by, downloaded or not: larger ones on a Mac, `bundled` elsewhere."""
    memory = machine_memory() if memory_bytes is None else memory_bytes
    if platform == "darwin":
        for name in ("qwen3-14b", "qwen3.5-9b"):
            if fits(find(name), memory) == "fits":
                return name
    return "bundled"


def default_name(memory_bytes: int | None = None, platform: str = sys.platform) -> str:
    """The model used when none is named: the suggested one if it was downloaded before, else `bundled`.

    A larger model downloads only when somebody chooses it, so it never becomes the default by itself.
    """
    name = suggested_name(memory_bytes, platform)
    return name if name != "bundled" and on_disk(find(name)) else "bundled"


def on_disk(entry: Entry) -> bool:
    """Whether the model can be loaded without a network."""
    if entry.repo is None:
        from agentkit.models import bundled

        return bundled.is_here()
    from agentkit.models.hub import folder_on_disk

    return folder_on_disk(entry.repo) is not None
