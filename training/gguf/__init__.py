"""Conversion of a checkpoint to a GGUF agent with llama.cpp's programs, and a check of its answers."""
