"""The noisy teacher that wrote the critic's first training data: its verdicts are right, its refined prompts
of uneven quality.

Decision: a language model that writes refined prompts for training data has patterns, good and bad, and
supervised training copies the commonest one. So it is here: half of the time the prompt is repeated,
sometimes what matters is stated, sometimes another edit is asked for. What supervised training copies,
reinforcement can weigh by its results.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from ....backend.tinyworld.scene import EMPTY
from ....backend.tinyworld.scorer import faults
from ....backend.tinyworld.wording import Clause, clauses_of, prompt_text
from .critic_rows import MAX_CLAUSES
from .judged_pages import Drawn, mistaken
from .scenes import changed_cells

REMEDIES = {
    "repeated": 0.50,
    "one fault": 0.15,
    "what is right": 0.10,
    "all that matters": 0.10,
    "another edit": 0.15,
}
"""How often each is written: an assumption of the experiment, not a measurement of any language model."""


def refined_prompt(rng: Random, drawn: Drawn, prompt: str) -> str:
    """What a failed page is drawn with next; `prompt` is what it was drawn with."""
    remedy = rng.choices(list(REMEDIES), list(REMEDIES.values()))[0]
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


def _stated(drawn: Drawn, cells: Sequence[int | None]) -> list[Clause]:
    places = [cell for cell in cells if cell is not None]
    return clauses_of(drawn.expected, places, backdrop=None in cells)
