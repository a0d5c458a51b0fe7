"""Rebuilds the published data sets, benchmarks and ablations; nothing else imports it."""
