"""Agents in GGUF format, run by llama.cpp's server."""
