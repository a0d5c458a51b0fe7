"""Put back for images as the rest of the backend uses them, and for prompts that change the whole image."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..pictures import Picture

LEAST_SIDE = 64
MOST_PIXELS = 32 * 1024 * 1024
"""Larger images would need more than about 4 GB of RAM."""
WHOLE_IMAGE = re.compile(
    r"""
    \b(?:
        night|dusk|dawn|sunset|sunrise|twilight|moonlit|moonlight|candlelight|golden\ hour|blue\ hour
        |lighting|relight|brighter|darker|warmer|colder|cooler
        |rain(?:y|ing|s)?|snow(?:y|ing|s)?|fog(?:gy)?|mist(?:y)?|storm(?:y)?|overcast|sunny|cloudy|weather
        |spring|summer|autumn|winter|season
        |style|watercolou?r|oil\ painting|sketch|cartoon|anime|black\ and\ white|monochrome|sepia|gr[ae]yscale
        |scene|background|backdrop|camera|zoom|viewpoint|point\ of\ view|close-up|wide\ shot|panorama
        |noche|atardecer|amanecer|lluvia|nieve|niebla|estilo|fondo|escena|luz
        |nacht|abend|morgend\w+|sonnenuntergang|regen|schnee|nebel|stil|hintergrund|szene|licht|kamera
        |nuit|aube|coucher\ de\ soleil|pluie|neige|brouillard|fond|scène|lumière
    )\b
    |夜|黄昏|日落|日出|清晨|灯光|光线|下雨|雨天|下雪|雪景|雾|风格|水彩|素描|黑白|背景|场景|镜头|天气|季节
    |夕方|朝焼け|夕焼け|照明|雪|霧|スタイル|水彩|白黒|シーン|カメラ
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Words for the light, weather, style, background or view of the whole image."""
CHANGES = re.compile(
    r"""
    \b(?:
        make|turn|change|set|switch|transform|convert|replace|move|becomes?|starts?|begins?|falls?|give|restyle|redraw
        |haz|cambia|convierte|pon|empieza|vuelve|reemplaza
        |mach|mache|ändere|wechsle|verwandle|setze|beginnt|wird|ersetze
        |rends|change|transforme|mets|commence|devient|remplace
    )\b
    |把|将|让|改|换|变|变成|开始|調|に変|にする|にして|変え|始め
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Words that ask for a change. Without one, a sentence describes the style or the scene that a story has."""
SENTENCES = re.compile(r"[.!?;。！？；\n]+")


@dataclass(frozen=True)
class PutBack:
    """The result: an image, the share of it that the edit changed, and why it is AFTER itself, if it is."""

    image: Picture
    changed: float
    refused: str = ""


def put_back(before: Picture, after: Picture) -> PutBack:
    """Put the pixels of `before` back into `after` where the edit did not need to change them.

    Takes 1 to 2 seconds of one core per megapixel. If the images are too small or large or of different
    sizes, or differ in more than an edit of a part, the result is `after` itself, with the reason.
    """
    if before.size != after.size:
        sizes = [f"{width}x{height}" for width, height in (before.size, after.size)]
        return PutBack(after, 1.0, f"the images have different sizes ({sizes[0]} and {sizes[1]})")
    if min(after.size) < LEAST_SIDE:
        return PutBack(after, 1.0, f"the images are smaller than {LEAST_SIDE} pixels")
    if after.size[0] * after.size[1] > MOST_PIXELS:
        return PutBack(after, 1.0, f"the images have more than {MOST_PIXELS:,} pixels")
    import numpy
    import torch
    from PIL import Image

    from .put_back import restored

    pixels = [
        torch.from_numpy(numpy.array(one.image)).permute(2, 0, 1).float().contiguous()
        for one in (before, after)
    ]
    found = restored(*pixels)
    if found.refused:
        return PutBack(after, found.changed, found.refused)
    data = found.image.round().permute(1, 2, 0).to(torch.uint8).contiguous().numpy()
    return PutBack(Picture(Image.fromarray(data)), found.changed)


def asks_for_whole_image(prompt: str) -> bool:
    """Return whether a sentence of a prompt asks to change the light, weather, style, background or view."""
    return any(
        WHOLE_IMAGE.search(sentence) is not None and CHANGES.search(sentence) is not None
        for sentence in SENTENCES.split(prompt)
    )
