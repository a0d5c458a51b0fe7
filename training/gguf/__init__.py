"""Conversion of a checkpoint to a GGUF agent with llama.cpp's programs, and comparison of both."""
