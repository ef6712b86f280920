"""Acting on the world: one module a family, and one registry that finds them."""


def __getattr__(name: str):
    # On demand, since the registry itself walks this package.
    if name in ("all_tools", "default_tools", "tools_for"):
        from agentkit.tools import registry

        return getattr(registry, name)
    raise AttributeError(f"module 'agentkit.tools' has no attribute {name!r}")
