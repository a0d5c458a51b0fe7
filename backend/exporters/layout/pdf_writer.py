"""A PDF file written by hand: objects, pictures, and text that can be selected in any script.

Decision: by hand and not with a library, which would bring fonts or a renderer to place invisible text. What
is seen of a text is drawn by Pillow at the page's resolution, exactly as on the
sheet, so every script that an installed font has is right; over it lies the same text invisibly, which
readers select, search and copy, as in a scanned book. That text's font has empty glyphs (Type 3), hence
nothing is embedded and nothing licensed. Section numbers are those of ISO 32000-1:2008.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable, Sequence

from PIL import Image

from .pages import JPEG

CODES = 255
GLYPH = 1000
HEADER = b"%PDF-1.5\n%\xe2\xe3\xcf\xd3\n"


class PdfFile:
    """Collects numbered objects; `finish` gives the file. The same calls give the same bytes."""

    def __init__(self) -> None:
        self._objects: list[bytes | None] = []
        self._letters: dict[str, int] = {}
        self._pictures: dict[str, int] = {}

    def reserve(self) -> int:
        """A number for an object whose content comes later, by `put`."""
        self._objects.append(None)
        return len(self._objects)

    def put(self, content: bytes, number: int | None = None) -> int:
        """Add an object; returns its number."""
        number = number or self.reserve()
        self._objects[number - 1] = content
        return number

    def stream(self, data: bytes, entries: str = "", packed: bool = False) -> int:
        """Add a stream; `packed` data has its filter in `entries` already."""
        if not packed:
            data, entries = zlib.compress(data, 6), f"{entries} /Filter /FlateDecode"
        return self.put(b"<< %s /Length %d >>\nstream\n%s\nendstream" % (entries.encode(), len(data), data))

    def picture(self, image: Image.Image, name: str) -> int:
        """Add an RGB picture, lossless or as JPEG of high quality, whichever is smaller; one `name`, one
        object."""
        if name not in self._pictures:
            buffer = io.BytesIO()
            image.save(buffer, "JPEG", **JPEG)
            exact = zlib.compress(image.tobytes(), 6)
            entries = _image_entries(image, "/DeviceRGB")
            if len(exact) <= len(buffer.getvalue()):
                self._pictures[name] = self.stream(exact, f"{entries} /Filter /FlateDecode", packed=True)
            else:
                data = buffer.getvalue()
                self._pictures[name] = self.stream(data, f"{entries} /Filter /DCTDecode", packed=True)
        return self._pictures[name]

    def shades(self, image: Image.Image, paper: Sequence[int], ink: Sequence[int]) -> int:
        """Add a grey image whose 0 is `paper` and whose 255 is `ink`."""
        palette = bytes(
            round(low + (high - low) * share / 255)
            for share in range(256)
            for low, high in zip(paper, ink, strict=True)
        )
        space = f"[/Indexed /DeviceRGB 255 <{palette.hex()}>]"
        return self.stream(image.tobytes(), _image_entries(image, space))

    def letters(self, text: str) -> list[tuple[int, bytes]]:
        """The text as runs of (font, codes) for `Tj`; fonts are named /T0, /T1... A font holds 255
        letters."""
        runs: list[tuple[int, bytes]] = []
        for letter in text:
            font, code = divmod(self._letters.setdefault(letter, len(self._letters)), CODES)
            if runs and runs[-1][0] == font:
                runs[-1] = font, runs[-1][1] + bytes([code + 1])
            else:
                runs.append((font, bytes([code + 1])))
        return runs

    def fonts(self) -> str:
        """The fonts of all letters so far, as the content of a resource dictionary's /Font (9.6.5,
        9.10.3)."""
        letters = list(self._letters)
        empty = self.stream(f"{GLYPH // 2} 0 d0".encode())
        entries = []
        for first in range(0, len(letters), CODES):
            part = letters[first : first + CODES]
            names = " ".join(f"/g{code}" for code in range(1, len(part) + 1))
            glyphs = " ".join(f"/g{code} {empty} 0 R" for code in range(1, len(part) + 1))
            widths = " ".join([str(GLYPH // 2)] * len(part))
            font = (
                f"<< /Type /Font /Subtype /Type3 /FontBBox [0 -250 {GLYPH // 2} {GLYPH}] "
                f"/FontMatrix [{1 / GLYPH} 0 0 {1 / GLYPH} 0 0] /CharProcs << {glyphs} >> "
                f"/Encoding << /Type /Encoding /Differences [1 {names}] >> /FirstChar 1 /LastChar "
                f"{len(part)} "
                f"/Widths [{widths}] /Resources << >> /ToUnicode {self.stream(_to_unicode(part))} 0 R >>"
            )
            entries.append(f"/T{first // CODES} {self.put(font.encode())} 0 R")
        return " ".join(entries)

    def finish(self, root: int, info: int) -> bytes:
        """The whole file (7.5)."""
        file = io.BytesIO()
        file.write(HEADER)
        places = []
        for number, content in enumerate(self._objects, start=1):
            if content is None:
                raise ValueError(f"object {number} was reserved and never put")
            places.append(file.tell())
            file.write(b"%d 0 obj\n%s\nendobj\n" % (number, content))
        start = file.tell()
        table = "".join(f"{place:010} 00000 n \n" for place in places)
        count = len(places) + 1
        file.write(f"xref\n0 {count}\n0000000000 65535 f \n{table}".encode())
        file.write(f"trailer\n<< /Size {count} /Root {root} 0 R /Info {info} 0 R >>\n".encode())
        file.write(b"startxref\n%d\n%%%%EOF\n" % start)
        return file.getvalue()


def words(text: str) -> str:
    """A string object in UTF-16 (7.9.2.2)."""
    return f"<{_utf16(chr(0xFEFF) + text)}>"


def references(numbers: Iterable[int]) -> str:
    """An array of references to objects."""
    return f"[{' '.join(f'{number} 0 R' for number in numbers)}]"


def _image_entries(image: Image.Image, space: str) -> str:
    return (
        f"/Type /XObject /Subtype /Image /Width {image.width} /Height {image.height} "
        f"/ColorSpace {space} /BitsPerComponent 8"
    )


def _to_unicode(letters: Sequence[str]) -> bytes:
    """Which letter each code from 1 on is, in blocks of the 100 that one may have (9.10.3)."""
    lines = [f"<{code:02x}> <{_utf16(letter)}>" for code, letter in enumerate(letters, start=1)]
    blocks = [lines[first : first + 100] for first in range(0, len(lines), 100)]
    body = "\n".join(f"{len(block)} beginbfchar\n" + "\n".join(block) + "\nendbfchar" for block in blocks)
    return (
        "/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n"
        "/CMapName /Story def\n/CMapType 2 def\n1 begincodespacerange\n<01> <ff>\nendcodespacerange\n"
        f"{body}\nendcmap\nCMapName currentdict /CMap defineresource pop\nend\nend"
    ).encode()


def _utf16(text: str) -> str:
    return text.encode("utf-16-be", "replace").hex()
