"""The values of clips: the video, what it must show, its frames while it is made, and the finished clip.

A clip belongs to a pair of images and a prompt, whose digest is its `key`. If an image or the prompt changes,
the key changes too, and the clip no longer belongs to the story. A movie is identified by its bytes, because
encoding is lossy. In JSON it is its digest alone, as images are (pictures.py); the code that reads the JSON
says where the bytes are (validation context `{"movies": digest -> Movie}`). A movie in a file is read on
first use and never kept in RAM.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from ..pictures import DIGEST, Picture, WithDigest
from .values import Text, Value

MAX_BYTES = 64 * 1024 * 1024
"""Maximum size of one movie."""


class Movie(WithDigest):
    """An immutable MP4 file with a content digest (40 hex digits of BLAKE2b over its bytes)."""

    SOURCE, NOUN = "movies", "a movie"

    def __init__(self, data: bytes) -> None:
        self._read: Callable[[], bytes] = lambda: data
        self.digest = hashlib.blake2b(data, digest_size=20).hexdigest()

    @classmethod
    def in_file(cls, digest: str, read: Callable[[], bytes]) -> Movie:
        """Return a movie whose bytes are read when they are used.

        Args:
            digest: Digest of the bytes.
            read: Reads the bytes and checks them against the digest.
        """
        movie = cls.__new__(cls)
        movie.digest, movie._read = digest, read
        return movie

    @property
    def data(self) -> bytes:
        """The bytes of the file.

        Raises:
            InterleaveError: The file cannot be read again, as raised by the reader in `in_file`.
        """
        return self._read()

    def __repr__(self) -> str:
        return f"Movie({self.digest[:8]})"


MAX_FRAMES = 1_000
"""Maximum number of frames of one clip."""
MIN_FPS, MAX_FPS = 1.0, 120.0
MAX_SIDE = 4096
"""Maximum side of a frame in pixels."""

ImageDigest = Annotated[str, Field(pattern=DIGEST.pattern)]
Side = Annotated[int, Field(ge=1, le=MAX_SIDE)]


class ClipPair(Value):
    """What a clip must show: the change from one image of a story to the next.

    Attributes:
        step: Number of the step whose image ends the clip.
        first: Image at which the clip begins.
        last: Image at which the clip ends.
        prompt: Prompt of the step: what happens from `first` to `last`.
    """

    step: int = Field(ge=1)
    first: Picture
    last: Picture
    prompt: Text

    @property
    def key(self) -> str:
        """Digest of both images and the prompt."""
        return clip_key(self.first.digest, self.last.digest, self.prompt)


def clip_key(first: str, last: str, prompt: str) -> str:
    """Return 40 hex digits of BLAKE2b over the digests of two images and a prompt."""
    return hashlib.blake2b(f"{first} {last} {prompt}".encode(), digest_size=20).hexdigest()


@dataclass(frozen=True)
class Footage:
    """The frames of a clip as they were generated.

    Attributes:
        frames: The frames.
        fps: Frames per second.
    """

    frames: Sequence[Picture]
    fps: float


class ClipMaker(ABC):
    """Generates the frames of a clip."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """Name of the model and of its settings. It changes if they could give other frames."""

    @abstractmethod
    def make(self, pair: ClipPair, seed: int) -> Footage:
        """Return the frames from `pair.first` to `pair.last`.

        Raises:
            GeneratorError: The generation failed or ran out of memory.
            Cancelled: The run was cancelled.
        """


class Clip(Value):
    """A finished clip.

    Attributes:
        first: Digest of the image at which it begins.
        last: Digest of the image at which it ends.
        prompt: The prompt it was made for.
        movie: The video.
        fps: Frames per second.
        frames: Number of frames.
        size: Width and height in pixels.
        maker: Identity of what made it, with its seed; "" if unknown.
        took: Wall-clock seconds of generating it.
        asked: In ComfyUI, the settings of the nodes that made it, in lines; "" if unknown.
    """

    past_fields = frozenset({"accepted", "reasoning"})

    first: ImageDigest
    last: ImageDigest
    prompt: Text
    movie: Movie
    fps: float = Field(ge=MIN_FPS, le=MAX_FPS)
    frames: int = Field(ge=1, le=MAX_FRAMES)
    size: tuple[Side, Side]
    maker: Text = ""
    took: float = Field(default=0.0, ge=0.0)
    asked: Text = ""

    @property
    def key(self) -> str:
        """Digest of both images and the prompt, as that of its `ClipPair`."""
        return clip_key(self.first, self.last, self.prompt)

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return self.frames / self.fps
