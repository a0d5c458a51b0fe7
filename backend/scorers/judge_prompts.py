"""The prompts of the judge, by version.

A version never changes, because stored scores refer to it by the judge's identity. New texts get a new
version.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

SLOT = "{instruction}"
REASON = "{reason}"


def digest_of(text: str) -> str:
    """Return 16 hex digits over the texts of prompts, part of an identity."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class JudgePrompts:
    """One version of the judge's prompts.

    Attributes:
        version: Number of the version, from 1.
        semantics: Asks how well an edit follows its instruction; contains SLOT.
        quality: Asks for the quality of an image.
        form: Answer format, appended to both.
        retry: Sent after a reply that cannot be read; contains REASON.
        name: Name of the scorer that they belong to, part of its identity.
    """

    version: int
    semantics: str
    quality: str
    form: str
    retry: str
    name: str = "judge"

    @property
    def key(self) -> str:
        """Part of the judge's identity: version and digest of the texts."""
        # Version 1 had no number, and its digest did not cover the retry.
        texts = self.semantics + self.quality + self.form + (self.retry if self.version > 1 else "")
        digest = digest_of(texts)
        return f"prompts={self.version}:{digest}" if self.version > 1 else f"questions={digest}"

    def semantics_for(self, instruction: str) -> str:
        """Return the prompt about semantics for an instruction."""
        # Replaced once, so that a slot in the instruction itself is not filled.
        return self.semantics.replace(SLOT, instruction, 1) + self.form

    @property
    def quality_prompt(self) -> str:
        """The prompt about quality."""
        return self.quality + self.form


VERSION_1 = JudgePrompts(
    version=1,
    semantics="""You score an edited image. The first image is the one before, the second is the one after. \
If the first is plain white, nothing was there before and the second was drawn from words alone.

What was to be done:
{instruction}

Give two numbers from 0 to 10.
First: how far was it done? 0: nothing of it can be seen. 5: about half, or plainly wrong in a part. 10: \
all of it, in the right place, number, colour and manner.
Second: how well was everything else kept? 0: the image is another one. 5: several things that were not to \
change have changed. 10: nothing has changed that was not to; with a white first image: nothing is there \
that was not asked for.
""",
    quality="""You score the quality of an image, whatever it shows.

Give two numbers from 0 to 10.
First: how natural is it? 0: nothing fits together (light, shadows, size, perspective, style), or it could \
not be so (things float, cut through one another, stand without support, water and smoke that do not flow). \
5: a part of it looks out of place. 10: it looks all of one piece.
Second: how free of defects is it? 0: full of them (broken or doubled shapes, bodies that are not built so: \
too many or missing limbs and fingers, joints bent the wrong way, melted faces; blur, noise, seams, ruined \
text). 5: some that one sees at once. 10: none.
""",
    form="""
Think first, as briefly as you can, then answer with the two numbers in this form and nothing after it:
<think>your reasoning</think>
<answer>[first number, second number]</answer>""",
    retry="Your answer could not be read. {reason} Answer with <answer>[number, number]</answer>.",
)

VERSION_2 = JudgePrompts(
    version=2,
    semantics="""You are evaluating an edited image. The first image is the image before the edit, and the \
second image is the result. If the first image is plain white, nothing existed before the edit, and the \
second image was generated from the instruction alone.

Instruction:
{instruction}

Rate two aspects, each with a number from 0 to 10.
First number: how well does the second image follow the instruction? 0: nothing of the instruction was \
followed. 5: about half of it was followed, or a part of it is clearly wrong. 10: it was followed \
completely, with the correct position, number, color and style.
Second number: how well was everything else preserved? 0: it is a different image. 5: several things \
changed that the instruction did not ask to change. 10: only what the instruction asked for has changed. If \
the first image is plain white, 10 means that the image contains nothing that the instruction did not ask \
for.
""",
    quality="""You are evaluating the quality of an image, regardless of its content.

Rate two aspects, each with a number from 0 to 10.
First number: how natural does the image look? 0: its elements do not fit together (lighting, shadows, size, \
perspective, style), or it is physically implausible (objects that float, intersect each other or stand \
without support, water or smoke that does not flow). 5: a part of it looks out of place. 10: it looks \
natural and consistent.
Second number: how free of artifacts is the image? 0: it is full of artifacts (broken or duplicated shapes; \
wrong anatomy, such as extra or missing limbs and fingers, joints bent the wrong way or distorted faces; \
blur, noise, seams or garbled text). 5: it has some artifacts that are noticeable at once. 10: it has no \
artifacts.
""",
    form="""
Think first, as briefly as possible. Then answer with the two numbers in this format and write nothing after:
<think>your reasoning</think>
<answer>[first number, second number]</answer>""",
    retry="""Your answer could not be read. {reason} Answer again with two numbers in this format:
<answer>[first number, second number]</answer>""",
)

CURRENT = VERSION_2
