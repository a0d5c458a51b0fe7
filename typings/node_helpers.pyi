from typing import Any

def conditioning_set_values(
    conditioning: list, values: dict[str, Any] = {}, append: bool = False
) -> list: ...
