from typing import Any

class ProgressRegistry:
    dynprompt: Any

def get_progress_state() -> ProgressRegistry: ...
