"""The words that exports write of their own, in the languages that the pack's views in the browser have.

Decision: there is one source of words, `web/words/LANGUAGE.json`, which the browser reads too. The English
text is the key. `say` fills in a text of an export; `heard` takes a line that another part of the backend
made (how a step ended, the sums of a run) and finds it by its pattern, as web/words.js does. What a language
lacks is said in English, and what a run holds itself (requests, prompts, stories) stays as it was written.
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
    """The words of one language, `tag` as in an HTML page; those of English are the keys themselves."""

    def __init__(self, tag: str, texts: dict[str, str], lines: dict[str, str]) -> None:
        self.tag = tag
        self._texts = texts
        self._lines = [(_pattern(key), PLACE.findall(key), text) for key, text in lines.items()]

    @property
    def samples(self) -> tuple[str, ...]:
        """Texts that hold all letters of the language's words; none in English."""
        return tuple(self._texts.values())

    def say(self, text: str, /, **values: object) -> str:
        """A text of an export; `{name}` in it takes the value of that name."""
        return _filled(self._texts.get(text, text), {name: str(value) for name, value in values.items()})

    def heard(self, line: str) -> str:
        """A line that was made in English; as it is where no pattern fits."""
        for pattern, names, text in self._lines:
            match = pattern.fullmatch(line)
            if match:
                found = zip(names, match.groups(), strict=True)
                values = {name: self.heard(one) if name in LOOKED_UP else one for name, one in found}
                return _filled(text, values)
        return self._texts.get(line, line)


def words_in(language: str) -> Words:
    """The words of a language of LANGUAGES; raises SettingsError for any other."""
    if language not in LANGUAGES:
        raise SettingsError(
            f"There are no words for the language {str(language)[:40]!r}.", f"Known: {', '.join(LANGUAGES)}."
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
