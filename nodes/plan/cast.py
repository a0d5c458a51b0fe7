"""Node for one member of a story's cast.

Nodes are chained, so a group of them is a cast that is copied into the next story.
"""

from __future__ import annotations

from typing import Any, get_args

from comfy_api.latest import io

from ...backend.core.errors import SettingsError
from ...backend.core.pictures import Picture
from ...backend.core.types import StepImage
from ...backend.core.types.cast import (
    MAX_CAST,
    MAX_MEMBER_IMAGES,
    MAX_NAME,
    MAX_TRAIT,
    MAX_TRAITS,
    NOT_IN_A_NAME,
    CastMember,
    MemberKind,
    check_cast,
)
from ...backend.story.journal.run_files import PICTURES
from ..inputs.images import checked_batch, to_pictures
from ..inputs.sockets import CAST, CastSocket, check_optional, images_input, node_schema
from ..inputs.validation import checked, fault_of, only_text


class CastNode(io.ComfyNode):
    """Adds a character, a prop or a place to the cast of a story."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return node_schema(
            "InterleaveCast",
            inputs=[
                io.String.Input("name", default="", placeholder="Mia"),
                io.Combo.Input("kind", options=list(get_args(MemberKind)), default="character"),
                io.String.Input(
                    "traits",
                    multiline=True,
                    default="",
                    placeholder="girl of seven\nshort black hair\nred coat",
                ),
                images_input(MAX_MEMBER_IMAGES),
                CastSocket.Input("cast", optional=True),
            ],
            outputs=[CastSocket.Output("CAST")],
        )

    @classmethod
    def validate_inputs(cls, name: str | None = "", images: Any = None) -> bool | str:
        """Check inputs before anything runs."""
        # The host passes growing inputs even if the method has no parameter for them, and shows the returned
        # error once for every other parameter, so only the name is checked here. A value on a wire is None.
        return name is None or fault_of(lambda: check_name(name), name=name)

    @classmethod
    def execute(
        cls,
        name: str,
        kind: str = "character",
        traits: str = "",
        images: dict[str, Any] | None = None,
        cast: tuple[CastMember, ...] | None = None,
    ) -> io.NodeOutput:
        """Add the member."""
        check_optional("Cast", CAST, cast=cast)
        only_text("Cast", name=name, kind=kind, traits=traits)
        name = check_name(name)
        member = checked(
            CastMember,
            "Cast",
            name=name,
            kind=kind,
            traits=traits_of(traits, name),
            images=shown(name, images),
        )
        members = (*(cast or ()), member)
        try:
            check_cast(members, ())
        except ValueError as error:
            raise SettingsError(f"Cast: {error}.", "Give each member its own name.") from error
        if len(members) > MAX_CAST:
            raise SettingsError(
                f"Cast: {name!r} is member {len(members)}; the maximum is {MAX_CAST}.", "Remove some members."
            )
        return io.NodeOutput(members)


def check_name(name: str) -> str:
    """Return the name of a member without spaces around it.

    Raises:
        SettingsError: It cannot be a name.
    """
    name = name.strip()
    if not name:
        raise SettingsError("Cast: the name is empty.", "Enter the word that prompts use, such as Mia.")
    if found := NOT_IN_A_NAME.search(name):
        raise SettingsError(
            f"Cast: the name {name[:MAX_NAME]!r} contains {found.group()!r}.",
            "Use one line without , ; : | and one node per member.",
        )
    if len(name) > MAX_NAME:
        raise SettingsError(
            f"Cast: the name has {len(name)} characters; at most {MAX_NAME} are allowed.",
            "Shorten it, and describe the member in the traits.",
        )
    return name


def traits_of(traits: str, name: str) -> tuple[str, ...]:
    """Return the traits in a text, one per line.

    Raises:
        SettingsError: There are too many, or one is too long.
    """
    lines = tuple(" ".join(line.split()) for line in traits.splitlines() if line.strip())
    if len(lines) > MAX_TRAITS:
        raise SettingsError(
            f"Cast, {name!r}: {len(lines)} traits; at most {MAX_TRAITS} are allowed.",
            "Join some of them with a comma, or keep the most visible ones.",
        )
    longest = max((len(line) for line in lines), default=0)
    if longest > MAX_TRAIT:
        raise SettingsError(
            f"Cast, {name!r}: a trait has {longest} characters; at most {MAX_TRAIT} are allowed.",
            "Shorten it, or split it into several lines.",
        )
    return lines


def shown(name: str, images: dict[str, Any] | None) -> tuple[StepImage, ...]:
    """Return the connected images in order; a batch counts as all of its images.

    Raises:
        SettingsError: There are too many, or one is not an image.
    """
    batches = [checked_batch(batch) for batch in (images or {}).values() if batch is not None]
    count = sum(len(batch) for batch in batches)
    if count > MAX_MEMBER_IMAGES:
        raise SettingsError(
            f"Cast, {name!r}: {count} images; at most {MAX_MEMBER_IMAGES} are allowed.",
            "Connect the ones that show it best.",
        )
    return tuple(connected_image(picture) for batch in batches for picture in to_pictures(batch))


def connected_image(picture: Picture) -> StepImage:
    """Return an image named by its file in a run folder, so that a run's plan can be run again there."""
    return StepImage(name=f"{PICTURES}/{picture.digest}.png", picture=picture)


def is_connected(image: StepImage) -> bool:
    """Return whether an image came from a socket."""
    return image.picture is not None and image == connected_image(image.picture)
