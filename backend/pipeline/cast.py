"""The cast of a run: read from cast.yaml, and given to every plan before it is stored.

    cast:
      - name: Mia
        kind: character
        traits: [girl of seven, short black hair, red coat]
        images: [mia.png]

Images are next to the file or below its folder. The plan of a run contains its cast, so a run is resumed
without the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from ..cast import Cast, CastMember, check_cast
from ..errors import SettingsError
from ..files.bounded_reader import read_text
from ..files.bounded_yaml import bounded_loader, load_yaml
from ..files.step_images import with_cast_images
from ..journal.records.run_files import first_fault
from ..types import Plan, Request

if TYPE_CHECKING:
    from ..agents.writers.cast_writer import CastWriter

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
            f"Cast {str(path)!r}{first_fault(error)}",
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
