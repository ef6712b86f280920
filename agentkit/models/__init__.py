"""Speaking to a model. Importing this package imports neither MLX nor LangChain; its names do, when first used."""

import importlib

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
