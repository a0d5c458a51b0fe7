"""Languages of the nodes and their views."""

LANGUAGES = ("en", "zh", "zh-TW", "ja", "ko", "fr", "es", "pt-BR", "ru", "tr")
"""English first: the other languages are translations of it."""
OWN_SCRIPT = {
    "zh": r"[\u4e00-\u9fff]",
    "zh-TW": r"[\u4e00-\u9fff]",
    "ja": r"[\u3040-\u30ff\u4e00-\u9fff]",
    "ko": r"[\uac00-\ud7a3]",
    "ru": r"[\u0400-\u04ff]",
}
"""Characters that every sentence contains in a language with a non-Latin script."""
CHARACTERS = {"zh": "gb2312", "zh-TW": "big5"}
"""Encodings that contain only the simplified or only the traditional characters."""
