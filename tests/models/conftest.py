import pytest

from agentkit.models.owner import owner
from tests import tiny


@pytest.fixture(scope="session")
def tiny_folders(tmp_path_factory):
    """Folders of tiny random models by name: qwen3 (attention), hybrid (recurrent layers), sliding (windowed)."""
    root = tmp_path_factory.mktemp("tiny")
    configs = {"qwen3": tiny.QWEN3, "hybrid": tiny.HYBRID, "sliding": tiny.SLIDING}
    return {name: owner().call(tiny.make, root / name, config) for name, config in configs.items()}


@pytest.fixture(scope="session")
def engines(tiny_folders):
    def load(folder):
        from agentkit.models.engine import Engine

        return Engine(folder)

    made = {name: owner().call(load, folder) for name, folder in tiny_folders.items()}
    for engine in made.values():
        owner().at_close(engine.release)
    return made


@pytest.fixture
def generate(engines):
    """generate(name, tokens or text, grammar=None, **profile) -> (Prefilled, pieces, Finished) on a cleared cache unless keep."""
    from agentkit.models.engine import Piece, Request
    from agentkit.models.profile import GenerationProfile

    for engine in engines.values():
        owner().call(engine.prefix.clear)

    def run(name, prompt, grammar=None, boundary=None, cancel_after=None, **fields):
        engine = engines[name]
        tokens = engine.tokenizer.encode(prompt, add_special_tokens=False) if isinstance(prompt, str) else prompt
        profile = GenerationProfile(**{"max_tokens": 8, "seed": 1, "prefix_guard": 4} | fields)
        items = []
        for item in owner().stream(lambda cancel: engine.stream(Request(tokens, profile, grammar, boundary, cancel))):
            items.append(item)
            if cancel_after and sum(isinstance(i, Piece) for i in items) >= cancel_after:
                break
        pieces = [item for item in items if isinstance(item, Piece)]
        return items[0], pieces, items[-1]

    return run
