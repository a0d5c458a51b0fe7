"""The pipeline as a library: models opened by name, a run in a folder, a story to show and to export."""
