from comfy.samplers import CFGGuider

class Guider_DualCFG(CFGGuider):
    def set_conds(self, positive: list, middle: list, negative: list) -> None: ...  # type: ignore[override]
    def set_cfg(self, cfg1: float, cfg2: float, nested: bool = False) -> None: ...  # type: ignore[override]
