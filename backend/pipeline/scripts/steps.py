"""Makes a plan from what the readers of scripts find."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...cast import MAX_CAST, MAX_NAME, NOT_IN_A_NAME, CastMember
from ...types import MAX_STEPS, Plan, Step


class Beat(NamedTuple):
    """What one step shows and tells.

    Attributes:
        name: Short name of the step.
        seen: Sentences for the image.
        said: Lines of the caption.
        cast: Names of those who are in it; `None` if the script does not say.
    """

    name: str
    seen: Sequence[str]
    said: Sequence[str] = ()
    cast: tuple[str, ...] | None = None


def plan_of(beats: Iterable[Beat], names: Iterable[str] = ()) -> Plan:
    """Return the plan of beats; those that show and tell nothing are left out.

    Args:
        beats: The beats in order.
        names: The cast.

    Raises:
        ValueError: No beat is left, or there are too many.
    """
    found = [beat for beat in beats if any(map(str.strip, (*beat.seen, *beat.said)))]
    if not found:
        raise ValueError("it has no steps")
    if len(found) > MAX_STEPS:
        raise ValueError(f"it has {len(found)} steps")
    cast = tuple(CastMember(name=name) for name in dict.fromkeys(names))[:MAX_CAST]
    known = {member.name for member in cast}
    steps = []
    for number, beat in enumerate(found, 1):
        present = None if beat.cast is None else tuple(name for name in beat.cast if name in known)
        steps.append(
            Step(
                number=number,
                name=beat.name,
                prompt=" ".join(map(sentence, filter(None, map(str.strip, beat.seen)))) or None,
                auxiliary_text="\n".join(beat.said).strip() or None,
                cast=present,
            )
        )
    return Plan(steps=tuple(steps), cast=cast)


def sentence(text: str) -> str:
    """Return a text on one line that ends with a mark."""
    text = " ".join(text.split())
    return text if text[-1] in ".!?。！？…" else f"{text}."


def cast_name(text: str) -> str:
    """Return a name as a cast can hold it, or an empty text."""
    return " ".join(NOT_IN_A_NAME.sub(" ", text).split())[:MAX_NAME].strip()
