"""Agents on servers with the OpenAI chat API."""
