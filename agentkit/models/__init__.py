"""Speaking to a model. Importing this package imports neither MLX nor LangChain; its names do, when first used.

It does load OpenBLAS on Linux (40 ms): whichever module of this package first imports MLX, the fast library is there
before it. Loaded later it would be ignored, in silence.
"""

import importlib

from agentkit.models.blas import use_fast_blas

use_fast_blas()

_HOMES = {
    "load_model": "loading",
    "LocalChatModel": "chat",
    "ScriptedChatModel": "scripted",
    "Step": "scripted",
    "ToolCallParser": "tool_calls",
    "GenerationProfile": "profile",
}
__all__ = list(_HOMES)


def __getattr__(name: str):
    if home := _HOMES.get(name):
        return getattr(importlib.import_module(f"agentkit.models.{home}"), name)
    raise AttributeError(f"module 'agentkit.models' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
