"""For all tests: `@pytest.mark.needs("chromium")` names a system component (agentkit.components) that a test uses."""

import os

import pytest
from hypothesis import settings

from agentkit.components import component

pytest_plugins = ["pytester"]
# Time is never a reason to fail: tests run side by side, and on busy machines.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


def pytest_configure(config):
    config.addinivalue_line("markers", "model: asks the live bundled model")
    config.addinivalue_line("markers", "needs(*names): components it uses; if one is missing: skip, or fail if CI=true")


def pytest_runtest_setup(item):
    for name in [name for mark in item.iter_markers("needs") for name in mark.args]:
        part = component(name)
        if part.find() is None:
            reason = f"{name} is missing ({part.used_by}); to install: {part.install_command()}"
            if os.environ.get("CI") == "true":
                pytest.fail(reason, pytrace=False)
            pytest.skip(reason)
