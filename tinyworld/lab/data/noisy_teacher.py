"""The noisy teacher that writes the critic's first training data, with wrong verdicts and uneven prompts.

A language model that writes refined prompts has good and bad habits, and supervised training copies the most
frequent one. This teacher imitates that: half of the time it repeats the prompt, sometimes it states what
matters, sometimes it asks for another edit. Reinforcement learning can weigh these by their results. It also
overlooks faults: it calls a quarter of the failed images correct, which a filter by scores detects and
unfiltered data contain. TEACHERS contains three variants to measure the influence of these assumptions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from ...runtime.scene import EMPTY
from ...runtime.scorer import faults
from ...runtime.wording import Clause, clauses_of, prompt_text
from ..world.judged_images import DrawnImage, mistaken
from ..world.scenes import changed_cells
from .critic_rows import MAX_CLAUSES

REMEDIES = {
    "repeated": 0.50,
    "one fault": 0.15,
    "what is right": 0.10,
    "all that matters": 0.10,
    "another edit": 0.15,
}
"""Share of each kind of refined prompt. An assumption of the experiment, not measured on a language model."""
OVERLOOKED = 0.25
"""Share of failed images that it calls correct."""


def _more_often(one: str, share: float) -> dict[str, float]:
    rest = (1 - share) / (1 - REMEDIES[one])
    return {name: share if name == one else often * rest for name, often in REMEDIES.items()}


@dataclass(frozen=True)
class NoisyTeacher:
    """A teacher: frequency of each kind of refined prompt, and the share of failures that it overlooks."""

    remedies: Mapping[str, float]
    overlooked: float = OVERLOOKED

    def overlooks(self, rng: Random, drawn: DrawnImage) -> bool:
        """Whether the teacher calls this failed image correct."""
        return not drawn.success and rng.random() < self.overlooked


UNEVEN = NoisyTeacher(REMEDIES)
TEACHERS = {
    "careful": NoisyTeacher(_more_often("repeated", 0.25), 0.125),
    "uneven": UNEVEN,
    "careless": NoisyTeacher(_more_often("repeated", 0.75), 0.375),
}
"""Teachers by how often they repeat the failed prompt. The other kinds keep their proportions of REMEDIES."""


def refined_prompt(
    rng: Random, drawn: DrawnImage, prompt: str, remedies: Mapping[str, float] = REMEDIES
) -> str:
    """Return the teacher's refined prompt for a failed image generated from `prompt`."""
    remedy = rng.choices(list(remedies), list(remedies.values()))[0]
    wrong = faults(drawn.expected, drawn.seen)
    match remedy:
        case "one fault":
            holding = (cell for cell in wrong if cell is None or drawn.expected.cells[cell] != EMPTY)
            return prompt_text(drawn.edit, _stated(drawn, [next(holding, wrong[0])]))
        case "what is right":
            right = [cell for cell in drawn.expected.occupied if cell not in wrong]
            return prompt_text(drawn.edit, _stated(drawn, [rng.choice(right)] if right else []))
        case "all that matters":
            changed = changed_cells(drawn.scene_before, drawn.expected)
            cells = sorted({*changed, *drawn.expected.occupied}, key=lambda cell: (cell not in changed, cell))
            return prompt_text(drawn.edit, _stated(drawn, cells[:MAX_CLAUSES]))
        case "another edit":
            other = mistaken(rng, drawn)
            return prompt_text(other.edit) if other else prompt
        case _:
            return prompt


def _stated(drawn: DrawnImage, cells: Sequence[int | None]) -> list[Clause]:
    places = [cell for cell in cells if cell is not None]
    return clauses_of(drawn.expected, places, backdrop=None in cells)
