"""Makes a plan from what the readers of scripts find, and removes what all of them leave out."""

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
    seen: list[str]
    said: list[str]
    cast: tuple[str, ...] | None = None


def plan_of(beats: Iterable[Beat], names: Sequence[str] = ()) -> Plan:
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
    check_number(len(found))
    # The first spelling of a name is its name.
    spelled = {name.casefold(): name for name in reversed(list(names))}
    cast = tuple(CastMember(name=spelled[name]) for name in dict.fromkeys(map(str.casefold, names)))[
        :MAX_CAST
    ]
    known = {member.name.casefold(): member.name for member in cast}
    steps = []
    for number, beat in enumerate(found, 1):
        listed = () if beat.cast is None else [known.get(name.casefold()) for name in beat.cast]
        present = None if beat.cast is None else tuple(dict.fromkeys(filter(None, listed)))
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


def check_number(steps: int) -> None:
    """Raise ValueError for more steps than a plan can have."""
    if steps > MAX_STEPS:
        raise ValueError(f"it has more than {MAX_STEPS} steps")


def without(text: str, begin: str, end: str) -> str:
    """Return a text without the passages between two marks. A mark without its end is part of the text."""
    kept, at = [], 0
    while (start := text.find(begin, at)) >= 0 and (stop := text.find(end, start + len(begin))) >= 0:
        kept.append(text[at:start])
        at = stop + len(end)
    return "".join([*kept, text[at:]])


def sentence(text: str) -> str:
    """Return a text on one line that ends with a mark."""
    text = " ".join(text.split())
    return text if text[-1] in ".!?。！？…" else f"{text}."


def cast_name(text: str) -> str:
    """Return a name as a cast can hold it, or an empty text."""
    return " ".join(NOT_IN_A_NAME.sub(" ", text).split())[:MAX_NAME].strip()
