"""The languages that the nodes and their views are in, which tests of their words go through."""

LANGUAGES = ("en", "zh", "zh-TW", "ja", "ko", "fr", "es", "pt-BR", "ru", "tr")
"""English first: its words are what the others say."""
OWN_SCRIPT = {
    "zh": r"[\u4e00-\u9fff]",
    "zh-TW": r"[\u4e00-\u9fff]",
    "ja": r"[\u3040-\u30ff\u4e00-\u9fff]",
    "ko": r"[\uac00-\ud7a3]",
    "ru": r"[\u0400-\u04ff]",
}
"""What every sentence has in a language that is not written in Latin letters."""
CHARACTERS = {"zh": "gb2312", "zh-TW": "big5"}
"""Encodings that hold the simplified characters alone and the traditional ones alone."""
