"""A process that reads prompts under one BLAS: `python -m agentkit.bench.prefill_worker FOLDER fast|plain`.

Takes a list of token ids a line on stdin and answers with the seconds that computing its keys and values took; its
first line names the BLAS.
"""

import json
import sys
import time


def main(folder: str, blas: str) -> None:
    """Load the model of `folder`, then serve until stdin ends."""
    name = "reference"
    if blas == "fast":
        from agentkit.models.blas import use_fast_blas

        name = use_fast_blas().name
    import mlx.core as mx
    import mlx_lm
    from mlx_lm.models.cache import make_prompt_cache

    model, _ = mlx_lm.load(folder)
    mx.eval(model.parameters())

    def read(tokens: list[int]) -> float:
        cache = make_prompt_cache(model)
        began = time.perf_counter()
        model(mx.array([tokens]), cache=cache)
        mx.eval([layer.state for layer in cache])
        return time.perf_counter() - began

    read([1, 2, 3, 4])
    print(json.dumps(name), flush=True)
    for line in sys.stdin:
        print(json.dumps(read(json.loads(line))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
