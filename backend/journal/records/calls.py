"""Records of the models' calls, and their keys.

A key is the digest of a model and its arguments. So caching, resuming after a kill, and repeating only what
changed are the same look-up.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from ...checklist import ChecklistItem
from ...pictures import Picture
from ...types import (
    MAX_BATCH,
    MAX_IMAGES,
    MAX_STEPS,
    Enhancement,
    Fault,
    Score,
    Several,
    Text,
    Value,
    Verdict,
)
from ...values import bounded_identity, written_without

Digest = Annotated[str, Field(max_length=64)]


class Key(Value):
    """Everything that made a result; images are given by their digests."""

    @property
    def digest(self) -> str:
        """40 hex digits of BLAKE2b over the class name and the fields."""
        content = json.dumps([type(self).__name__, self.model_dump()], sort_keys=True)
        return hashlib.blake2b(content.encode(), digest_size=20).hexdigest()


class PlanKey(Key):
    """A planner (as in `Identities`) and its request."""

    planner: Text
    text: Text
    images: Several[Digest] = Field(default=(), max_length=MAX_IMAGES)


class DrawKey(Key):
    """A generator and its arguments; `source=None` means text-to-image."""

    generator: Text
    prompt: Text
    seed: int
    source: Digest | None


class JudgeKey(Key):
    """A critic (as in `Identities`) and its arguments; `before=None` means a white image."""

    critic: Text
    before: Digest | None
    after: Digest
    original_prompt: Text
    prompt_used: Text


CHECKS = 1
"""Version of the question about an item. A change makes cached answers invalid."""


def checked_key(key: JudgeKey, items: Sequence[ChecklistItem]) -> JudgeKey:
    """Return the key of a verdict that also answers the items of a checklist.

    How reliable the critic is (its agent card) is not part of it, so that a card that is added later leaves
    the answers of old runs valid.

    Args:
        key: Key of the verdict without them.
        items: The items.
    """
    asked = json.dumps([CHECKS, *([item.text, item.kind] for item in items)])
    return key.model_copy(update={"critic": bounded_identity(f"{key.critic} checklist={asked}")})


def score_key(
    scorer: str, before: str | None, after: str, original_prompt: str, compared: Sequence[str] = ()
) -> JudgeKey:
    """Return the key of a scorer's score; it is stored like a verdict.

    Args:
        scorer: Identity of the scorer.
        before: Digest of the source image.
        after: Digest of the image.
        original_prompt: Prompt from the plan.
        compared: Digests of the images that it was compared with, if the scorer compares images.
    """
    others = f" compared={json.dumps(sorted(compared))}" if compared else ""
    name = bounded_identity(f"score {scorer}{others}")
    return JudgeKey(critic=name, before=before, after=after, original_prompt=original_prompt, prompt_used="")


class DrawRecord(Value):
    """One generator call: its image or error, and its wall time in seconds.

    `more` are the further images of a batch. `enhancement` is what a prompt enhancer made of the prompt.
    `draft` is the model's own image, if a correction made `image` of it.
    """

    key: DrawKey
    image: Picture | None = None
    error: Fault | None = None
    seconds: float = Field(default=0.0, ge=0.0)
    more: Several[Picture] = Field(default=(), max_length=MAX_BATCH - 1)
    enhancement: Enhancement | None = None
    draft: Picture | None = None

    @model_serializer(mode="wrap")
    def _without_empty(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit missing parts, as earlier versions wrote records, so that they can read them."""
        return written_without(fields(self), self, ("enhancement", "draft"))

    @property
    def images(self) -> tuple[Picture, ...]:
        """All images of the call; empty if it failed."""
        return () if self.image is None else (self.image, *self.more)


class JudgementRecord(Value):
    """One judgement: a critic's verdict, a scorer's score, or an error; and the wall time in seconds."""

    key: JudgeKey
    verdict: Verdict | None = None
    error: Fault | None = None
    seconds: float = Field(default=0.0, ge=0.0)
    score: Score | None = None

    @model_serializer(mode="wrap")
    def _without_score(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit a missing score, as earlier versions wrote records, so that they can read them."""
        return written_without(fields(self), self, ("score",))

    @property
    def succeeded(self) -> bool:
        """Whether the judgement can be used again."""
        return self.verdict is not None or self.score is not None


class StoryKey(Key):
    """A story checker and what it is shown; `pages` are step numbers, texts and images."""

    checker: Text
    request: Text
    pages: Several[tuple[int, Text, Digest]] = Field(max_length=MAX_STEPS)
