import pytest


@pytest.fixture(scope="session")
def bundled():
    """The bundled model, unconstrained and greedy."""
    from agentkit.models import load_model

    return load_model("bundled").with_profile(temperature=0, constrained=False)


@pytest.fixture(scope="session")
def quiet():
    """A progress callback that nobody watches."""
    return lambda done, total: None
