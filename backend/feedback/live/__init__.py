"""Live view of a run in a browser, for ComfyUI nodes and the web app."""
