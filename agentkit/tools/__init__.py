"""Acting on the world: one module a family, one registry."""
