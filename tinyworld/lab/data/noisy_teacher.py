"""The noisy teacher that wrote the critic's first training data: some of its verdicts are wrong, its refined
prompts of uneven quality.

Decision: a language model that writes refined prompts for training data has patterns, good and bad, and
supervised training copies the commonest one. So it is here: half of the time the prompt is repeated,
sometimes what matters is stated, sometimes another edit is asked for. What supervised training copies,
reinforcement can weigh by its results. And it overlooks: a quarter of the failed pages it calls right, which
a filter by scores finds and unfiltered data keep. How much all of this matters is seen by TEACHERS, three of
whom the ablation is done with.
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
"""How often each is written: an assumption of the experiment, not a measurement of any language model."""
OVERLOOKED = 0.25
"""Share of failed pages that it calls right."""


def _more_often(one: str, share: float) -> dict[str, float]:
    rest = (1 - share) / (1 - REMEDIES[one])
    return {name: share if name == one else often * rest for name, often in REMEDIES.items()}


@dataclass(frozen=True)
class NoisyTeacher:
    """Who writes training data: how often each remedy, and the share of failed pages taken for right ones."""

    remedies: Mapping[str, float]
    overlooked: float = OVERLOOKED

    def overlooks(self, rng: Random, drawn: DrawnImage) -> bool:
        """Whether this failed page is called right."""
        return not drawn.success and rng.random() < self.overlooked


UNEVEN = NoisyTeacher(REMEDIES)
TEACHERS = {
    "careful": NoisyTeacher(_more_often("repeated", 0.25), 0.125),
    "uneven": UNEVEN,
    "careless": NoisyTeacher(_more_often("repeated", 0.75), 0.375),
}
"""Teachers by how often they repeat the prompt that failed; the other remedies share the rest as in
REMEDIES."""


def refined_prompt(
    rng: Random, drawn: DrawnImage, prompt: str, remedies: Mapping[str, float] = REMEDIES
) -> str:
    """What a failed page is drawn with next; `prompt` is what it was drawn with."""
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
