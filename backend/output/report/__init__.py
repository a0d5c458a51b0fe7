"""Texts and figures that describe a run to people: reports, summaries, captions."""
