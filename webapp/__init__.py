"""Web app: stories in a browser without ComfyUI, on a server of this machine."""
