"""cast.yaml: the cast of a run, given to every plan before it is stored, and images for members without any.

    cast:
      - name: Mia
        kind: character
        traits: [girl of seven, short black hair, red coat]
        images: [mia.png]

Images are next to the file or below its folder. The plan of a run contains its cast, so a run is resumed
without the file. Missing images are the steps of a plan that is run like any other, so the critic judges each
image against the traits, and the user can have it generated again. Only then it becomes a reference.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from ..core.errors import SettingsError, first_fault
from ..core.files.atomic import slug, write_bytes, write_text
from ..core.files.bounded_reader import bounded_loader, load_yaml, read_text
from ..core.files.image_places import with_cast_images
from ..core.types import Plan, Request, Step, StepResult, StepSettings, Trajectory
from ..core.types.cast import MAX_MEMBER_IMAGES, Cast, CastMember, check_cast
from ..story.outcomes import GOOD

if TYPE_CHECKING:
    from ..story.agents.text_writers import CastWriter


FILE_NAME = "cast.yaml"
MAX_FILE = 1024 * 1024


class _CastFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    cast: Cast


def read_cast(path: str | Path) -> tuple[CastMember, ...]:
    """Read a cast with its images.

    Args:
        path: YAML or JSON file: a list of members, or an object with the list as `cast`.

    Raises:
        SettingsError: The file is not a cast, or an image is missing, elsewhere or unreadable. The message
            names the member.
    """
    import yaml

    path = Path(path)
    text = read_text(path, MAX_FILE, SettingsError, "Cast")
    content = load_yaml(text, bounded_loader(yaml.SafeLoader), "Cast", path)
    try:
        cast = _CastFile.model_validate({"cast": content} if isinstance(content, list) else content).cast
    except ValidationError as error:
        raise SettingsError(
            f"Cast {str(path)!r}{first_fault(error, _CastFile)}",
            "A member has a name, a kind (character, prop or place), traits and images.",
        ) from error
    try:
        check_cast(cast, ())
    except ValueError as error:
        raise SettingsError(f"Cast {str(path)!r}: {error}.", "Give each member its own name.") from error
    return with_cast_images(cast, path.parent)


def cast_next_to(folder: Path) -> Path | None:
    """Return the cast.yaml next to a run folder, if there is one."""
    path = folder.absolute().parent / FILE_NAME
    return path if path.is_file() else None


class PlanCast:
    """Completes plans with a cast (`loop.collaborators.CastOfPlan`).

    Args:
        cast: The members. Empty: those of the plan.
        writer: Writes who is in each step, and the cast if there is none. It is not called for a plan that
            lists the members of a step already.
    """

    def __init__(self, cast: tuple[CastMember, ...] = (), writer: CastWriter | None = None) -> None:
        self._cast, self._writer = cast, writer

    def __call__(self, request: Request, plan: Plan) -> Plan:
        """Return the plan with its cast; the same plan if nothing is missing.

        Raises:
            ChatError: The writer's backend failed.
            Cancelled: The run was cancelled.
        """
        if self._cast and plan.cast != self._cast:
            plan = _with_members(plan, self._cast)
        plan = plan.resolved
        if self._writer is not None and all(step.cast is None for step in plan.steps):
            plan = self._writer.write(request, plan)
        return plan


def _with_members(plan: Plan, cast: tuple[CastMember, ...]) -> Plan:
    """Return the plan with these members. A step that lists one who is not among them loses its list."""
    known = {member.name.casefold() for member in cast}
    steps = tuple(
        step
        if all(name.casefold() in known for name in step.cast or ())
        else step.model_copy(update={"cast": None})
        for step in plan.steps
    )
    return plan.model_copy(update={"cast": cast, "steps": steps})


VIEWS = {
    "character": "Character sheet of {who}. Whole body from head to feet, seen from the front, standing, "
    "alone, in front of a plain light gray background.",
    "prop": "Reference image of {who}. The whole object, alone, in front of a plain light gray background.",
    "place": "Reference image of {who}. The whole place in daylight, without people.",
}
FROM_TEXT = StepSettings(source="text")


def sheets_of(cast: Sequence[CastMember]) -> tuple[Request, Plan]:
    """Return the request and the plan of the missing images: one step for each member without images.

    Raises:
        SettingsError: Every member has an image, or a member without images has no traits.
    """
    missing = [member for member in cast if not member.images]
    if not missing:
        raise SettingsError("Every member of the cast has an image.", "Remove its images to get a new one.")
    for member in missing:
        if not member.traits:
            raise SettingsError(
                f"Cast member {member.name!r} has neither images nor traits.", "Give it traits to generate."
            )
    steps = tuple(
        Step(number=number, name=member.name, prompt=_prompt(member), settings=FROM_TEXT)
        for number, member in enumerate(missing, 1)
    )
    return Request(text=f"Cast: {', '.join(member.name for member in missing)}"), Plan(steps=steps)


def keep_sheets(path: Path, trajectory: Trajectory, names: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """Store images of a run of `sheets_of` next to cast.yaml, and name them in it.

    The previous file is kept as cast.yaml.bak, since comments in it are not written again.

    Args:
        path: The cast file.
        trajectory: The run.
        names: Members whose images are stored, also rejected ones. Default: all whose image was accepted or
            picked, or not judged.

    Returns:
        The names of the members whose image was stored, and of those whose image was rejected.

    Raises:
        SettingsError: The file is not a cast, a name is not a member with an image in the run, a member has
            too many images, or a file cannot be written.
    """
    cast = read_cast(path)
    found = {result.step.name.casefold(): result for result in trajectory.results if result.image}
    for name in names:
        if name.casefold() not in found:
            raise SettingsError(f"The run has no image of {name!r}.", "Choose a member that is in the run.")
    chosen = {name.casefold() for name in names}
    kept: list[str] = []
    rejected: list[str] = []
    members: list[CastMember] = []
    for member in cast:
        result = found.get(member.name.casefold())
        if result is None or (chosen and member.name.casefold() not in chosen):
            members.append(member)
        elif chosen or result.stop_reason in GOOD:
            members.append(_with_image(member, result, path.parent))
            kept.append(member.name)
        else:
            members.append(member)
            rejected.append(member.name)
    if kept:
        _write(path, members)
    return kept, rejected


def _prompt(member: CastMember) -> str:
    return VIEWS[member.kind].format(who=f"{member.name}: {', '.join(member.traits)}")


def _with_image(member: CastMember, result: StepResult, folder: Path) -> CastMember:
    """Store the image of a step next to the cast file; return the member with it as its newest image."""
    image = result.image
    assert image is not None, "only results with an image are stored"
    if image in [one.picture for one in member.images]:
        return member
    if len(member.images) == MAX_MEMBER_IMAGES:
        raise SettingsError(
            f"Cast member {member.name!r} has {MAX_MEMBER_IMAGES} images already.", "Remove one of them."
        )
    name = f"{slug(member.name)}-{image.digest[:8]}.png"
    write_bytes(folder / name, image.png(), SettingsError, "Image")
    return CastMember.model_validate(
        {**dict(member), "images": (*member.images, {"name": name, "picture": image})}
    )


def _write(path: Path, members: Sequence[CastMember]) -> None:
    """Write the cast file, as JSON if it was JSON, and keep the one before."""
    import yaml

    written = {"cast": [member.as_written for member in members]}
    before = path.read_bytes()
    write_bytes(path.with_name(f"{path.name}.bak"), before, SettingsError, "Cast")
    if before.lstrip()[:1] in (b"{", b"["):
        text = json.dumps(written, indent=2, ensure_ascii=False) + "\n"
    else:
        text = yaml.safe_dump(written, sort_keys=False, allow_unicode=True, width=100)
    write_text(path, text, SettingsError, "Cast")
