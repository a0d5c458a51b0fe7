"""Models without their base class: what they have is used, and their own errors are not hidden."""

from __future__ import annotations

from typing import Any

import pytest

from interleave_thinker.backend import ChatModel, ClipMaker, Generator, Picture, Scorer, SettingsError
from interleave_thinker.backend.core.seams.adoption import adopt
from interleave_thinker.backend.core.seams.chat_model import ChatWrapper
from interleave_thinker.backend.core.seams.generator import GeneratorWrapper
from interleave_thinker.backend.core.types.roles import CriticLike, PlannerLike


class Bare:
    """Has all abstract members of all base classes, and some of the optional ones."""

    identity = "bare"

    def _answer(self, *given: Any, **named: Any) -> Any:
        return "answer"

    draw = reply = judge = plan = make = score = check = numbers = draw_many = reply_together = _answer
    judge_together = set_anchor = _answer
    max_reference_images = 3

    def with_step_settings(self, settings: object) -> Bare:
        return Bare()


class Failing(Bare):
    """A property of a plug-in that raises an AttributeError, which must not look like a missing property."""

    @property
    def step_settings(self) -> frozenset[str]:
        return self.not_there  # type: ignore[attr-defined]

    sees_images = checks_items = repeats = step_settings


class Proxy:
    """Finds its members with `__getattr__`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(Bare(), name)


@pytest.mark.parametrize("found", [Bare(), Proxy()])
@pytest.mark.parametrize(
    ("base", "capability", "default"),
    [
        (ChatModel, "answers_together", ("sees_images", True)),
        (CriticLike, "checks_items", ("prompt_set_digest", "")),
        (CriticLike, "judges_together", ("unused_settings", ())),
        (Scorer, "repeats", ("repeats", True)),
        (Generator, "draws_many", ("image_mark", "Image {}")),
        (Generator, "follows_anchor", ("draws_at_once", 1)),
        (PlannerLike, "plan", ("unused_settings", ())),
        (ClipMaker, "make", ("identity", "bare")),
    ],
)
def test_lacks_get_the_default(found: Any, base: type, capability: str, default: tuple[str, object]) -> None:
    adopted = adopt(found, base)
    assert isinstance(adopted, base) and adopt(adopted, base) is adopted and adopted.identity == "bare"
    assert getattr(adopted, capability) and getattr(adopted, default[0]) == default[1]


def test_a_missing_member_is_named() -> None:
    with pytest.raises(SettingsError, match="int has no 'draw' and no 'identity'"):
        adopt(3, Generator)


@pytest.mark.parametrize(
    ("base", "name"),
    [
        (Generator, "step_settings"), (ChatModel, "sees_images"), (CriticLike, "checks_items"),
        (Scorer, "repeats"),
    ],
)  # fmt: skip
def test_an_error_in_a_property_is_not_the_default(base: type, name: str) -> None:
    with pytest.raises(AttributeError, match="not_there"):
        getattr(adopt(Failing(), base), name)


def test_wrappers_pass_on_what_they_do_not_change() -> None:
    bare: Any = Bare()
    wrapper: Any = ChatWrapper
    generator, chat = GeneratorWrapper(bare), wrapper(bare)
    assert (generator.max_reference_images, chat.identity) == (3, "bare")
    assert generator.draw("a", None, 1) == chat.plan_warning("a", bare) + "answer"
    assert isinstance(generator.with_step_settings(bare).inner, Generator)
    generator.interrupted = lambda: True
    assert generator.inner.interrupted is generator.interrupted


def test_a_copy_is_adopted_too() -> None:
    assert isinstance(adopt(Bare(), Generator).with_step_settings(None), Generator)  # type: ignore[arg-type]
    assert adopt(Bare(), Generator).draw_several("a", Picture.white((8, 8)), 1) == ("answer",)
