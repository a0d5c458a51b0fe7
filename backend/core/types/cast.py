"""The cast of a story: the characters, props and places that keep their look in every image.

A member has fixed visual traits and images that show it. A step lists who is in it; without a list, its
prompt tells (presence.py). The loop (loop/policy.py) uses these functions for every step.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from ..pictures import Picture
from .values import Several, SparseValue, StepImage

MAX_CAST = 16
MAX_TRAITS = 4
MAX_MEMBER_IMAGES = 4
MAX_FACTS = 8
MAX_NAME = 60
MAX_TRAIT = 200
"""Maximum length of a trait or a fact, in characters."""
NOT_IN_A_NAME = re.compile(r"[,;:|，；：、\x00-\x1f\x7f-\x9f]|^-$")
SENTENCE_ENDS = ".!?。！？"
UNSPACED = "\u2e80"
"""First character of the scripts that write words without spaces between them."""

MemberKind = Literal["character", "prop", "place"]


def _name(text: str) -> str:
    text = text.strip()
    if not text or NOT_IN_A_NAME.search(text):
        raise ValueError("a name is one line of text without , ; : |")
    return text


def _line(text: str) -> str:
    text = " ".join(text.split())
    if not text:
        raise ValueError("the text is empty")
    return text


MemberName = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(_name)]
ShortText = Annotated[str, Field(max_length=MAX_TRAIT), AfterValidator(_line)]
Present = Annotated[tuple[MemberName, ...], Field(max_length=MAX_CAST)]
Facts = Annotated[Several[ShortText], Field(max_length=MAX_FACTS)]


class CastMember(SparseValue):
    """A character, prop or place that looks the same in every image.

    Attributes:
        name: Name by which steps refer to it, unique regardless of case.
        kind: What it is.
        traits: Visual traits that never change, such as "short black hair".
        images: Images that show it. The last one is the newest and is shown first.
    """

    omitted = ("traits", "images")

    name: MemberName
    kind: MemberKind = "character"
    traits: Several[ShortText] = Field(default=(), max_length=MAX_TRAITS)
    images: Several[StepImage] = Field(default=(), max_length=MAX_MEMBER_IMAGES)

    @property
    def newest(self) -> Picture | None:
        """The newest loaded image; `None` if none is loaded."""
        return next((image.picture for image in reversed(self.images) if image.picture), None)

    @property
    def as_written(self) -> dict[str, Any]:
        """The member as a user writes it: images by their file names."""
        images = {"images": [one.name for one in self.images]} if self.images else {}
        return self.model_dump(mode="json", exclude={"images"}) | images


Cast = Annotated[Several[CastMember], Field(max_length=MAX_CAST)]


def check_cast(cast: Sequence[CastMember], steps: Iterable[tuple[int, Sequence[str] | None]]) -> None:
    """Check that names are unique and that steps name only members.

    Args:
        cast: The members.
        steps: Numbers of the steps with the names they list; `None` for a step without a list.

    Raises:
        ValueError: A name is there twice, or does not exist.
    """
    known: set[str] = set()
    for member in cast:
        if member.name.casefold() in known:
            raise ValueError(f"the cast has two members named {member.name!r}")
        known.add(member.name.casefold())
    for number, names in steps:
        for name in names or ():
            if name.casefold() not in known:
                raise ValueError(f"step {number} names {name!r}, who is not in the cast")


def joined_cast(connected: Sequence[CastMember], written: Sequence[CastMember]) -> tuple[CastMember, ...]:
    """Return the connected members and those of a plan text.

    A written member replaces the connected one of the same name. Without images of its own, it has those of
    the connected one, so that a copied text keeps them.
    """
    own = {member.name.casefold(): member for member in written}
    joined = []
    for member in connected:
        found = own.pop(member.name.casefold(), member)
        joined.append(found if found.images else found.model_copy(update={"images": member.images}))
    return (*joined, *own.values())


def cast_text(members: Sequence[CastMember], facts: Sequence[str], listed: bool) -> str:
    """Return what the prompt of a step says about its cast: traits, number of characters, and facts.

    Args:
        members: The members that are in the step.
        facts: What is true after the step.
        listed: Whether the step lists its members. Only then their number is known to be exact; otherwise the
            prompt may mention characters that are not in the cast.
    """
    parts = [f"{member.name}: {', '.join(member.traits)}." for member in members if member.traits]
    names = [member.name for member in members if member.kind == "character"]
    if names and listed:
        parts.append(f"Exactly {len(names)} character{'s' if len(names) > 1 else ''}: {_joined(names)}.")
    elif names:
        parts.append(f"{_joined(names)} {'each appear' if len(names) > 1 else 'appears'} exactly once.")
    parts += [fact if fact[-1] in SENTENCE_ENDS else f"{fact}." for fact in facts]
    return " ".join(parts)


def followed_by(prompt: str, text: str) -> str:
    """Return the prompt with a text after it, unless it already ends with it."""
    prompt = prompt.rstrip()
    if not text or prompt.endswith(text):
        return prompt
    return f"{prompt}{'' if prompt[-1:] in SENTENCE_ENDS else '.'} {text}"


def newest_images(members: Sequence[CastMember], source: Picture | None) -> list[tuple[str, Picture]]:
    """Return the loaded images of these members with their names, in the order in which they are shown.

    The newest image of every member comes before the second newest of any. No image is returned twice, and
    the image that the step edits is never a reference.
    """
    loaded = [[image.picture for image in reversed(one.images) if image.picture] for one in members]
    found: dict[str, tuple[str, Picture]] = {}
    for place in range(MAX_MEMBER_IMAGES):
        for member, pictures in zip(members, loaded, strict=True):
            if place < len(pictures) and pictures[place] != source:
                found.setdefault(pictures[place].digest, (member.name, pictures[place]))
    return list(found.values())


def pictures_of(cast: Sequence[CastMember]) -> list[Picture]:
    """Return all loaded images of the members."""
    return [image.picture for member in cast for image in member.images if image.picture]


def named_in(name: str, text: str) -> Iterator[re.Match[str]]:
    """Yield where a text contains the name as a whole word, regardless of case."""
    before = "" if name[0] >= UNSPACED else r"(?<!\w)"
    after = "" if name[-1] >= UNSPACED else r"(?!\w)"
    return re.finditer(f"{before}{re.escape(name)}{after}", text, re.IGNORECASE)


def _joined(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
