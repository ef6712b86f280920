"""Teaching the bundled model: dialogues drawn from data/finetune, and a LoRA adapter trained on them."""

import agentkit.models  # noqa: F401 - loads OpenBLAS, which must be there before a module of this room imports MLX
