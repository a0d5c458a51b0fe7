"""Checks requested lettering: compares the texts in an image with those in quotes in the prompt.

The reader is a chat model that transcribes (Qwen3-VL and its relatives read well), or an OCR model of
transformers. The score is that of the worst text, so that a correct title does not hide a wrong sign. A
prompt without quotes asks for no lettering and is not measured. Quotes that the prompt tells to remove or to
replace are left out.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Protocol

from ...answers.reply_text import split_reply
from ...chat import ChatModel, Message, ReplySettings, open_chat
from ...chat.image_limits import MAX_PIXELS_BOUND, scaled_down
from ...checklist import LETTERING
from ...errors import AnswerError, ScorerError
from ...pictures import Picture
from ...types import Score
from ..judge_prompts import digest_of
from ..protocol import Parts, free_device
from .folder_model import LocalModel

QUESTION = """Transcribe all text that is visible in the image, exactly as it is spelled, including errors. \
Write one line per text and nothing else. If there is no text, write <none>."""
SETTINGS = ReplySettings(max_tokens=512)
NOTHING = "<none>"
OCR = "ocr:"
GOT = "got_ocr2"
END = "<|im_end|>"
"""Token that ends an answer of GOT-OCR 2.0."""
FAMILIES: dict[str, str] = dict.fromkeys((GOT, "vision-encoder-decoder"), "AutoModelForImageTextToText")
MAX_TOKENS = 512
MAX_REQUESTED = 20
"""Maximum number of texts that are compared."""
AROUND = 80
"""Characters before a text in quotes that decide whether it is to be removed."""
MAX_READ = 2000
"""Maximum number of characters of the transcription that are compared."""
NOT_WANTED = re.compile(
    r"\b(?:remove|erase|delete|replace|change|without|instead of|no longer)\b[^.;!?\"“”„«»]{0,60}$",
    re.IGNORECASE,
)


class ReadsText(Protocol):
    """Reads the texts in an image."""

    @property
    def identity(self) -> str:
        """Identity of the model and its settings."""
        ...

    def read(self, image: Picture) -> str:
        """Return all texts in the image; raises ScorerError or ChatError."""
        ...


class ChatReader:
    """Has a chat model transcribe the image."""

    def __init__(self, chat: ChatModel) -> None:
        self.chat = chat

    @property
    def identity(self) -> str:
        """Identity of the model, the prompt and the decoding settings."""
        return f"{self.chat.identity}|question={digest_of(QUESTION)}|{SETTINGS.key()}"

    def read(self, image: Picture) -> str:
        """Return the transcription.

        Raises:
            ScorerError: The reply cannot be read.
            ChatError: The model failed.
            Cancelled: The user stopped the run.
        """
        reply = self.chat.reply([Message(role="user", content=(image, QUESTION))], SETTINGS)
        try:
            return "\n".join(place.content for place in split_reply(reply.whole).places)
        except AnswerError as error:
            raise ScorerError(f"The transcription cannot be read. {error}") from error


class OcrReader:
    """Reads with an OCR model of transformers: GOT-OCR 2.0 for whole images, TrOCR for single lines."""

    def __init__(self, model: LocalModel) -> None:
        self.model = model

    @property
    def identity(self) -> str:
        """Identity of the model."""
        return f"{OCR}{self.model.identity}"

    def read(self, image: Picture) -> str:
        """Return the transcription.

        Raises:
            ScorerError: The model failed.
        """
        with self.model.ready() as model:
            shown = scaled_down(image, MAX_PIXELS_BOUND).image
            inputs = self.model.processor(images=shown, return_tensors="pt").to(self.model.device)
            if self.model.family != GOT:
                ids = model.generate(**inputs, do_sample=False)
                return self.model.processor.batch_decode(ids, skip_special_tokens=True)[0]
            end = self.model.processor.tokenizer.convert_tokens_to_ids(END)
            ids = model.generate(**inputs, do_sample=False, max_new_tokens=MAX_TOKENS, eos_token_id=end)
            own = ids[:, inputs["input_ids"].shape[1] :]  # the prompt is returned too
            return self.model.processor.batch_decode(own, skip_special_tokens=True)[0]

    def offload(self) -> None:
        """Free the device until the next call."""
        self.model.offload()


class LetteringScorer:
    """Scores semantics by the requested lettering; does not measure quality.

    Args:
        reader: Reads the texts in an image.
    """

    def __init__(self, reader: ReadsText) -> None:
        self.reader = reader

    @property
    def identity(self) -> str:
        """Identity of the reader."""
        return f"lettering/1:{self.reader.identity}"

    def parts(self, before: Picture | None, after: Picture, instruction: str) -> Parts:
        """Return the score of the worst requested text. Arguments and errors are those of `score`."""
        wanted = requested_texts(instruction)
        if not wanted:
            return Parts(None, None)
        found = plain(self.reader.read(after))[:MAX_READ]
        return Parts(10 * min(closeness(text, found) for text in wanted), None)

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        """Return the score of the worst requested text as semantics, with a constant quality.

        Args:
            before: Not used.
            after: Image to score.
            instruction: Original prompt of the step. Without a text in quotes the score is 10.

        Raises:
            ScorerError: The image cannot be read.
            ChatError: The reader's model failed.
            Cancelled: The user stopped the run.
        """
        return self.parts(before, after, instruction).score

    def offload(self) -> None:
        """Free the reader's device until the next call."""
        free_device(self.reader)


def requested_texts(instruction: str) -> list[str]:
    """Return the texts in quotes that an image must show, in plain form and without duplicates."""
    found = [
        plain(one.group(1))
        for one in LETTERING.finditer(instruction)
        if not NOT_WANTED.search(instruction[max(0, one.start() - AROUND) : one.start()])
    ]
    return [text for text in dict.fromkeys(found) if text][:MAX_REQUESTED]


def plain(text: str) -> str:
    """Return a text without differences that do not count: case, spaces, punctuation, width of characters."""
    normal = unicodedata.normalize("NFKC", text.replace(NOTHING, "")).casefold()
    return "".join(character for character in normal if character.isalnum())


def closeness(wanted: str, read: str) -> float:
    """Return 1 - d / length, where d is the smallest edit distance of `wanted` to any part of `read`."""
    # P. Sellers (1980): a match may begin and end anywhere in the text.
    before = [0] * (len(read) + 1)
    for row, letter in enumerate(wanted, 1):
        current = [row]
        for column, other in enumerate(read, 1):
            current.append(min(before[column] + 1, current[-1] + 1, before[column - 1] + (letter != other)))
        before = current
    return 1 - min(before) / len(wanted)


def open(
    argument: str,
    *,
    adapter: str | None = None,
    dtype: str | None = None,
    device: str | None = None,
    quantization: str | None = None,
    download: bool | None = None,
) -> LetteringScorer:
    """Open a check of lettering.

    Args:
        argument: Chat backend that transcribes, or `ocr:FOLDER`.
        adapter: Option of the backend: folder of a LoRA adapter.
        dtype: Option of the backend.
        device: Option of the backend, also of `ocr:FOLDER`.
        quantization: Option of the backend.
        download: Option of the backend: whether a hub id may be downloaded.

    Raises:
        SettingsError: The backend is unknown, an option is not supported, or the folder has no OCR model.
        ChatError: The model cannot be loaded.
    """
    if argument.startswith(OCR):
        return LetteringScorer(OcrReader(LocalModel(argument.removeprefix(OCR), FAMILIES, device)))
    chat = open_chat(
        argument,
        adapter=adapter,
        dtype=dtype,
        device=device,
        quantization=quantization,
        download=download or None,
    )
    return LetteringScorer(ChatReader(chat))
