"""Teaching the bundled model to call tools: data, LoRA and the training loop."""
