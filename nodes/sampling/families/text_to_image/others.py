"""Further families without reference latents: image to image."""

from __future__ import annotations

from ..family import NOISE, Compared, Family, Recommended

CLASSES = {
    "AuraFlow": ("AuraFlow",),
    "PixArt": ("PixArt",),
    "HunyuanDiT": ("HunyuanDiT",),
    "HunyuanImage 2.1": ("HunyuanImage21",),
    "Kandinsky 5 Image": ("Kandinsky5Image",),
    "Anima": ("Anima",),
    "Lens": ("Lens",),
    "PixelDiT": ("PixelDiTT2I",),
}
SETTINGS = {
    "Kandinsky 5 Image": Recommended(50, 3.5),
    "Anima": Recommended(30, 4.0),
    "Lens": Recommended(20, 5.0),
    "PixelDiT": Recommended(30, 4.0, "er_sde"),
}

FAMILIES = tuple(
    Family(
        name=name,
        models=models,
        method=NOISE,
        compared=Compared("no comparison", "image to image"),
        recommended=(SETTINGS[name],) if name in SETTINGS else (),
    )
    for name, models in CLASSES.items()
)
