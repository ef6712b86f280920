"""`python -m agentkit.training.check`: what is wrong with the fine-tuning set, line by line."""

import sys
from pathlib import Path

from agentkit.training.catalog import load

if __name__ == "__main__":
    corpus = load(Path(sys.argv[1] if len(sys.argv) > 1 else "data/finetune"))
    print("\n".join(corpus.problems))
    print(f"{len(corpus.tools)} tools, {len(corpus.chains)} chains, {len(corpus.talk)} talk entries, {len(corpus.problems)} problems")
    sys.exit(bool(corpus.problems))
