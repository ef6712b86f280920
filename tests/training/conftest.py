"""The committed fine-tuning set, the bundled tokenizer, and a tiny random Llama to train."""

from pathlib import Path

import pytest

from agentkit.models.owner import owner
from agentkit.training import catalog
from tests import tiny

DATA = Path(__file__).parents[2] / "data" / "finetune"


@pytest.fixture(scope="session")
def corpus():
    return catalog.load(DATA)


@pytest.fixture(scope="session")
def tokenizer():
    """The bundled model's own tokenizer and chat template."""
    from transformers import AutoTokenizer

    from agentkit.models.bundled import bundled_folder

    return AutoTokenizer.from_pretrained(bundled_folder())


@pytest.fixture(scope="session")
def llama(tmp_path_factory):
    """Folder of a tiny random Llama, built like the bundled model, with the project's chat template."""
    from agentkit.models.bundled import template

    return owner().call(tiny.make, tmp_path_factory.mktemp("llama"), tiny.LLAMA, template())
