"""Texts of the exports in the languages that the views in the browser support.

There is one source of texts, `web/words/LANGUAGE.json`, which the browser reads too. The English text is the
key. `say` translates a text of an export and fills in its values. `heard` translates a finished English line
of another part of the backend (how a step ended, the totals of a run) by finding its pattern, as web/words.js
does. If a translation is missing, the English text is used. Texts of the run itself (requests, prompts,
stories) are not translated.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from ..errors import SettingsError
from ..files.bounded_reader import read_json

FOLDER = Path(__file__).resolve().parents[2] / "web" / "words"
ENGLISH = "en"
LANGUAGES = ("en", "zh", "zh-TW", "ja", "ko", "fr", "es", "ru", "pt-BR", "tr")
PLACE = re.compile(r"\{(\w+)\}")
NUMBER = r"[\d.,%/]+"
LOOKED_UP = ("rest", "part", "count")
MAX_BYTES = 1024 * 1024


class Words:
    """The texts of one language.

    `tag` is its language tag as in HTML. The English texts are the keys themselves.
    """

    def __init__(self, tag: str, texts: dict[str, str], lines: dict[str, str]) -> None:
        self.tag = tag
        self._texts = texts
        self._lines = [(_pattern(key), PLACE.findall(key), text) for key, text in lines.items()]

    @property
    def samples(self) -> tuple[str, ...]:
        """Texts that contain all letters of the translations; empty for English."""
        return tuple(self._texts.values())

    def say(self, text: str, /, **values: object) -> str:
        """Return a text of an export; `{name}` in it is replaced by the value of that name."""
        return _filled(self._texts.get(text, text), {name: str(value) for name, value in values.items()})

    def heard(self, line: str) -> str:
        """Translate a finished English line; a line without a pattern is returned unchanged."""
        for pattern, names, text in self._lines:
            match = pattern.fullmatch(line)
            if match:
                found = zip(names, match.groups(), strict=True)
                values = {name: self.heard(one) if name in LOOKED_UP else one for name, one in found}
                return _filled(text, values)
        return self._texts.get(line, line)


def words_in(language: str) -> Words:
    """Return the texts of a language.

    Raises:
        SettingsError: The language is not in `LANGUAGES`.
    """
    if language not in LANGUAGES:
        raise SettingsError(
            f"The language {str(language)[:40]!r} is not supported.",
            f"Choose one of {', '.join(LANGUAGES)}.",
        )
    return _read(language)


@lru_cache(maxsize=len(LANGUAGES))
def _read(language: str) -> Words:
    if language == ENGLISH:
        return Words(ENGLISH, {}, {})
    content = read_json(FOLDER / f"{language}.json", SettingsError, "The words of the language", MAX_BYTES)
    assert isinstance(content, dict), "a file of this package"
    return Words(language, content["view"] | content["export"], content["server"])


def _pattern(key: str) -> re.Pattern[str]:
    texts, names = PLACE.split(key)[::2], PLACE.findall(key)
    places = [r"([\s\S]+?)" if name in (*LOOKED_UP, "text") else f"({NUMBER})" for name in names]
    return re.compile(
        "".join(re.escape(text) + place for text, place in zip(texts, [*places, ""], strict=True))
    )


def _filled(text: str, values: dict[str, str]) -> str:
    return PLACE.sub(lambda place: values.get(place[1], place[0]), text)
