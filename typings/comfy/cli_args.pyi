class _Arguments:
    cache_none: bool
    enable_cors_header: str | None
    listen: str

args: _Arguments
