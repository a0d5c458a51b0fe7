"""RISEBench: edits that require reasoning."""
