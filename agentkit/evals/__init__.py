"""Measuring models on tool calls: the project's own cases and BFCL."""
