"""Small ICC profiles, written by hand: a camera's wide RGB, a gray with gamma 2.2, and a printer's CMYK."""

from __future__ import annotations

import struct


def wide_rgb() -> bytes:
    """Return AdobeRGB (1998): primaries adapted to D50, gamma 563/256."""
    primaries = {
        b"rXYZ": (0.60974, 0.31111, 0.01947),
        b"gXYZ": (0.20528, 0.62567, 0.06087),
        b"bXYZ": (0.14919, 0.06322, 0.74457),
    }
    curves = {name: _gamma(563 / 256) for name in (b"rTRC", b"gTRC", b"bTRC")}
    return _profile(b"mntr", b"RGB ", b"XYZ ", {name: _xyz(*one) for name, one in primaries.items()} | curves)


def srgb_like() -> bytes:
    """Return a profile with sRGB's primaries and gamma 2.2, like those of monitors."""
    primaries = {
        b"rXYZ": (0.43607, 0.22249, 0.01392),
        b"gXYZ": (0.38515, 0.71687, 0.09708),
        b"bXYZ": (0.14307, 0.06061, 0.7141),
    }
    curves = {name: _gamma(2.2) for name in (b"rTRC", b"gTRC", b"bTRC")}
    return _profile(b"mntr", b"RGB ", b"XYZ ", {name: _xyz(*one) for name, one in primaries.items()} | curves)


def gray() -> bytes:
    """Return gray with gamma 1.8."""
    return _profile(b"mntr", b"GRAY", b"XYZ ", {b"kTRC": _gamma(1.8)})


def printer_cmyk() -> bytes:
    """Return sixteen printer colors in Lab: each ink fully or not at all, black over all of them."""
    cyan, magenta, yellow = (55, -37, -50), (48, 74, -3), (89, -5, 93)
    inks = {0: (95, 0, 0), 1: yellow, 2: magenta, 3: (47, 68, 48), 4: cyan, 5: (50, -65, 27)}
    inks |= {6: (24, 22, -46), 7: (23, 0, 0)}
    colors = b""
    for number in range(16):
        lightness, a, b = (16, 0, 0) if number & 1 else inks[number >> 1]
        colors += bytes((round(lightness * 255 / 100), a + 128, b + 128))
    identity = bytes(range(256))
    matrix = struct.pack(">9i", *(65536 if at % 4 == 0 else 0 for at in range(9)))
    table = b"mft1\0\0\0\0" + bytes((4, 3, 2, 0)) + matrix + identity * 4 + colors + identity * 3
    return _profile(b"prtr", b"CMYK", b"Lab ", {b"A2B0": table})


def _gamma(value: float) -> bytes:
    return b"curv\0\0\0\0" + struct.pack(">IH", 1, round(value * 256)) + b"\0\0"


def _xyz(x: float, y: float, z: float) -> bytes:
    return b"XYZ \0\0\0\0" + struct.pack(">3i", *(round(one * 65536) for one in (x, y, z)))


def _profile(kind: bytes, space: bytes, connection: bytes, tags: dict[bytes, bytes]) -> bytes:
    tags = {
        b"desc": b"desc\0\0\0\0" + struct.pack(">I", 5) + b"test\0" + b"\0" * 79,
        b"cprt": b"text\0\0\0\0none\0\0\0\0",
        b"wtpt": _xyz(0.9642, 1.0, 0.8249),
        **tags,
    }
    table, data = struct.pack(">I", len(tags)), b""
    start = 128 + 4 + 12 * len(tags)
    for name, content in tags.items():
        table += struct.pack(">4sII", name, start + len(data), len(content))
        data += content + b"\0" * (-len(content) % 4)
    size = start + len(data)
    head = struct.pack(">I4sI", size, b"lcms", 0x02400000) + kind + space + connection
    head += b"\0" * 12 + b"acsp" + b"\0" * 28 + struct.pack(">3i", 63190, 65536, 54061)
    return head.ljust(128, b"\0") + table + data
