"""What a plan from elsewhere means where it says it in another way than ours: steps counted from 0, words in
`instruction`.

Decision: both are read as they are meant. Numbers from 0 become numbers from 1, so that the first step is
drawn from text and nothing shows a step 0; a step that draws nothing and has words in `instruction` alone is
a step of these words.
"""

from __future__ import annotations

from collections.abc import Iterable


def shift_of(numbers: Iterable[int]) -> int:
    """What to add to the step numbers of a plan: 1 if they count from 0, else 0."""
    return 1 if min(numbers, default=1) == 0 else 0


def words_of(
    instruction: str | None, prompt: str | None, auxiliary_text: str | None
) -> tuple[str | None, str | None]:
    """Instruction and auxiliary text of a step, the words of a step of text where ours have them."""
    if instruction and not prompt and not auxiliary_text:
        return None, instruction
    return instruction, auxiliary_text
