"""The execution record: one JSON file with everything that a run did."""
