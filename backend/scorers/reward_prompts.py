"""Prompts for reward models: EditScore and UnifiedReward-Edit with scores from 0 to 25, and RationalRewards.

The forms of the answers are those of the published models, since they were trained to write them. The
instructions around them are this package's own. `import_editscore` and `import_rational` read the exact
prompts that a model was trained with from the user's checkout of its repository. The files are parsed, never
executed.
"""

from __future__ import annotations

from pathlib import Path

from ..errors import SettingsError
from ..prompts import MAX_TEMPLATE
from ..prompts.importer import string_constants
from .judge_prompts import REASON, SLOT, JudgePrompts

TOP = 25.0
"""Highest score of EditScore and UnifiedReward-Edit."""
FORM = """
Answer with one JSON object in this format, the reasoning first and in a few sentences:
{"reasoning": "...", "score": [first score, second score]}"""
RETRY = f"Your answer could not be read. {REASON} Answer again with the JSON object.{FORM}"
SEMANTICS = f"""You judge how well an image was edited. The first image is the original, and the second \
image is the edited version. They can be identical if the edit failed. If the first image is plain white, \
the second image was generated from the instruction alone.

Give two scores from 0 to 25.
First score, success of the edit: 0 if nothing of the instruction is visible, 25 if it is followed exactly.
Second score, restraint: 0 if the edited image is a completely different scene, 25 if nothing changed except \
what the instruction asks for.

Editing instruction: {SLOT}
"""
QUALITY = """You judge the quality of one generated image, regardless of its content.

Give two scores from 0 to 25.
First score, naturalness: 0 if lighting, shadows, distances or proportions are implausible everywhere, 25 if \
the image looks natural.
Second score, freedom from artifacts: 0 if large areas show distortions, watermarks, scratches, blurred \
faces, malformed bodies or parts that do not fit together, 25 if there are none.
"""


def scores_to_25(name: str) -> JudgePrompts:
    """Return the built-in prompts of `editscore` or `unifiedreward`."""
    return JudgePrompts(2, SEMANTICS, QUALITY, FORM, RETRY, name)


RATIONAL_PARTS = (
    "Text Faithfulness",
    "Image Faithfulness",
    "Physical and Visual Quality",
    "Text Rendering",
)
"""Headings of the four aspects in an answer of RationalRewards."""
_ASPECTS = {
    "Text Faithfulness": "does the image show what the instruction asks for?",
    "Image Faithfulness": "is everything of the source image preserved that the edit does not concern?",
    "Physical and Visual Quality": "is the image plausible and free of artifacts?",
    "Text Rendering": "is the requested lettering correct and legible? N/A if none is requested",
}


def rational_prompt(edit: bool) -> str:
    """Return the built-in prompt of RationalRewards for an edit, or for an image generated from text.

    It contains an image mark `<image>` for each image and the slot `{request}`.
    """
    parts = [one for one in RATIONAL_PARTS if edit or one != "Image Faithfulness"]
    images = "1. Source Image <image>\n2. Edited Image <image>" if edit else "Generated Image <image>"
    aspects = "\n".join(f"{number}. {one}: {_ASPECTS[one]}" for number, one in enumerate(parts, 1))
    form = "\n".join(
        f"{number}. {one}:\n## Score: [number{' or N/A' if one == 'Text Rendering' else ''}]\n"
        "## Justification: [reason]"
        for number, one in enumerate(parts, 1)
    )
    return (
        f"You judge {'an edited' if edit else 'a generated'} image against the instruction of a user.\n\n"
        f"User Instruction: {{request}}\n\n{images}\n\nRate these aspects with decimal numbers from 1 "
        f"(fails) over 2 (clear problems) and 3 (minor problems) to 4 (no problem):\n{aspects}\n\n"
        f"Answer in this format:\n# Detailed Judgement\n{form}\n# Summary: [summary]"
    )


EDITSCORE_FILE = Path("editscore") / "vie_prompts.py"
EDITSCORE_PARTS = (
    "_context_no_delimit_reasoning_first",
    "_prompts_0shot_two_image_edit_rule",
    "_prompts_0shot_tie_rule_SC",
    "_prompts_0shot_rule_PQ",
)
EDITSCORE_SLOT = "<instruction>"
RATIONAL_FILE = Path("test_time_prompt_tuning") / "prompt_tuning.py"


def import_editscore(checkout: str, name: str) -> JudgePrompts:
    """Return the prompts in a checkout of EditScore's repository.

    Raises:
        SettingsError: The file is missing or does not define them, or no prompt has the instruction's slot.
    """
    texts = _imported(Path(checkout).expanduser(), EDITSCORE_FILE, EDITSCORE_PARTS)
    context, rule, semantics, quality = texts
    if EDITSCORE_SLOT not in semantics:
        raise SettingsError(
            f"{EDITSCORE_PARTS[2]} in {str(Path(checkout) / EDITSCORE_FILE)!r} does not have the slot "
            f"{EDITSCORE_SLOT}.",
            "Use another checkout.",
        )
    top = f"{TOP:g}"
    return JudgePrompts(
        version=2,
        semantics="\n".join([context, rule, semantics.replace("10", top)]).replace(EDITSCORE_SLOT, SLOT, 1),
        quality="\n".join([context, quality.replace("10", top)]),
        form="",
        retry=RETRY,
        name=name,
    )


def import_rational(checkout: str) -> str:
    """Return the prompt for edits in a checkout of the repository of RationalRewards.

    Raises:
        SettingsError: The file is missing or does not define it.
    """
    (prompt,) = _imported(Path(checkout).expanduser(), RATIONAL_FILE, ("instruction",))
    if "{request}" not in prompt or prompt.count("<image>") != 2:
        raise SettingsError(
            f"The prompt in {str(Path(checkout) / RATIONAL_FILE)!r} does not have {{request}} and two image "
            "marks.",
            "Use another checkout.",
        )
    return prompt


def _imported(checkout: Path, file: Path, names: tuple[str, ...]) -> list[str]:
    constants = string_constants(checkout / file)
    missing = [name for name in names if not constants.get(name)]
    if missing:
        raise SettingsError(
            f"{str(checkout / file)!r} does not define {missing[0]} as a plain string.",
            "Give the root folder of a checkout that defines it.",
        )
    found = [constants[name] for name in names]
    if max(map(len, found)) > MAX_TEMPLATE:
        raise SettingsError(f"A prompt in {str(checkout / file)!r} is too long.", "Use another checkout.")
    return found
