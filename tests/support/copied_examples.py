"""Agents that are sent one reply twice, by the template of their question, and the examples of templates."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from PIL import Image

from interleave_thinker import Attempt, Critic, Picture, Plan, Planner, Request, Step, StepResult, StopReason
from interleave_thinker.backend.core.errors import AnswerError
from interleave_thinker.backend.core.prompts.prompt_set import TEMPLATES, PromptSet, named_prompt_set
from interleave_thinker.backend.models.chat.scripted import ScriptedChat
from interleave_thinker.backend.pipeline.story_check import StoryChecker
from interleave_thinker.backend.story.agents.text_writers import CastWriter, PromptEnhancer, StepRewriter

PICTURE = Picture(Image.new("RGB", (8, 8), (10, 0, 0)))
TAGGED = re.compile(r"<think>(.*?)</think>\s*<answer>(.*?)</answer>", re.DOTALL)
ANSWER_FIRST = re.compile(r"<answer>(.*?)</answer>(?:\s*<think>(.*?)</think>)?", re.DOTALL)
PLAIN = re.compile(r"Example of its answer:\n(.+)")

IMPORTED = PromptSet(
    planner_text="""You plan. The request is "{text_input}".
<think>
Part 1: why the steps are these. Part 2: how their wishes became prompts.
</think>
<answer>
{'execution_plan': [{'step_number': 1, 'step_name': 'A name for it', 'instruction': 'The detailed wish.',
'prompt': "The best and purest words for the model that makes images. (No 'Step 1:' prefix)",
'auxiliary_text': 'The caption that is asked for. Output null without one.'}]}
</answer>""",
    planner_images="""You go on with "{text_input}".
<think>

</think>
<answer>
{'execution_plan': [{'step_number': 1, 'step_name': 'A name', 'instruction': "The wish (if it edits).",
'prompt': "The best words for the model that edits images (only if it edits). No prefixes like 'Step 1:'.",
'auxiliary_text': 'The whole text of the answer, or null if there is none.'}]}
</answer>""",
    critic="""You judge. The wish was "{original_instruction}", then "{rewritten_prompt}".
<think>
All that was found in the image, and why it is or is not good enough.
</think>
<answer>
{'previous_step_success': 'boolean (True only without any fault)', 'refine_prompt':
'[Better words that heal what was found in the image] if NOT GOOD (False), [the same words] if GOOD (True)'}
</answer>""",
)
"""A prompt set in the form of the published one: Python literals with descriptions in place of texts."""
PACK = {
    "default": PromptSet.load(TEMPLATES / "default"),
    "verdict-first": named_prompt_set("verdict-first"),
    "short": named_prompt_set("short"),
    "imported": IMPORTED,
}


@dataclass(frozen=True)
class Subject:
    """What an artist asks for: the request, two prompts, and the name of what is in them."""

    request: str
    prompts: tuple[str, str]


DRAGON = Subject(
    "A red dragon finds a cave, two images", ("A red dragon at a cave", "The dragon sleeps in it")
)


def accepts(agent: str, replies: list[str], subject: Subject = DRAGON) -> tuple[bool, int]:
    """Return whether an agent accepts one of the replies, and how many questions it asked."""
    name, _, job = agent.partition(" ")
    chat = ScriptedChat(replies)
    try:
        taken = _asked(PACK.get(name), job or name, chat, subject)
    except AnswerError:
        taken = False
    return taken, len(chat.requests)


def _asked(prompts: PromptSet | None, job: str, chat: ScriptedChat, subject: Subject) -> bool:
    request, first, second = Request(text=subject.request), *subject.prompts
    plan = Plan(steps=(Step(number=1, prompt=first), Step(number=2, prompt=second)))
    if job == "planner_text":
        return bool(Planner(chat, prompts).plan(request))
    if job == "planner_images":
        return bool(Planner(chat, prompts).plan(Request(text=subject.request, images=(PICTURE,))))
    if job in ("planner_outline", "planner_part"):
        return bool(Planner(chat, prompts).plan(Request(text=f"{subject.request} in exactly 13 steps")))
    if job == "critic":
        return Critic(chat, prompts).judge(None, PICTURE, first, first).success is not None
    if job == "cast":
        return not CastWriter(chat).write(request, plan).warning
    if job == "rewrite":
        return StepRewriter(chat)(plan, plan.drawn_steps[1], "It is not there.") is not None
    if job in ("enhancer_text", "enhancer_edit"):
        return not PromptEnhancer(chat).enhance(first, job == "enhancer_edit").warning
    assert job == "story_check"
    pages = [
        StepResult(
            step=step,
            attempts=(Attempt(prompt=step.prompt or "", seed=0, image=PICTURE),),
            chosen=0,
            stop_reason=StopReason.unjudged,
        )
        for step in (*plan.steps, *(Step(number=number, prompt=second) for number in (3, 4, 5)))
    ]
    return StoryChecker(chat).check(request, pages) is not None


def templates() -> dict[str, str]:
    """Return the templates that have examples, by the name of their agent."""
    found = {
        f"{name} {job}": getattr(prompts, job)
        for name, prompts in PACK.items()
        for job in PromptSet.model_fields
        if getattr(prompts, job) and not (name in ("verdict-first", "short") and job != "critic")
    }
    files = {
        "cast": "cast/cast.txt",
        "rewrite": "cast/rewrite.txt",
        "enhancer_text": "enhancer/text.txt",
        "enhancer_edit": "enhancer/edit.txt",
        "story_check": "story_check/story_check.txt",
    }
    return found | {job: (TEMPLATES / file).read_text() for job, file in files.items()}


def examples(agent: str, template: str) -> list[tuple[str, str]]:
    """Return the examples of a template: their thoughts, and their answer as the agent may write it."""
    if agent.startswith("verdict-first"):
        return [(thought, answer) for answer, thought in ANSWER_FIRST.findall(template)]
    found = [(thought, answer) for thought, answer in TAGGED.findall(template) if answer.strip()]
    found = [(thought, _finished(answer.strip())) for thought, answer in found]
    if agent.endswith("planner_part"):
        found = [(thought, _repeated(answer)) for thought, answer in found]
    return found + [("", answer) for answer in PLAIN.findall(template)]


def _finished(answer: str) -> str:
    """Return an answer of a template with a value where it describes one."""
    answer = re.sub(r"true or false|'boolean[^']*'", "True", answer).replace("{first}", "1")
    return re.sub(r"\bTrue\b(?=[,}])", "true", answer) if '"' in answer[:3] else answer


def _repeated(answer: str) -> str:
    """Return the example of a part with its step in place of each step of the part."""
    value = json.loads(answer)
    (step,) = value["execution_plan"]
    return json.dumps(value | {"execution_plan": [step | {"step_number": number} for number in range(1, 7)]})


def forms(thought: str, answer: str) -> Iterator[str]:
    """Yield an example as models send it back."""
    yield f"<think>{thought}</think>\n<answer>{answer}</answer>" if thought else answer
    if not answer.startswith("{"):
        yield from (
            f'"{answer}"',
            f"```\n{answer}\n```",
            answer.replace(" ", "  "),
            f"<think>Mine.</think>{answer}",
        )
        return
    value = _value(answer)
    yield f"<answer>{answer}</answer>"
    yield f"```json\n{json.dumps(value, indent=4)}\n```"
    yield f"<think>I have thought of it myself.</think><answer>{value!r}</answer>"
    yield f"<think>{thought.upper()}</think>\n\n<answer>{json.dumps(value).replace(' ', '  ')}</answer>"


def _value(answer: str) -> object:
    try:
        return json.loads(answer)
    except ValueError:
        return ast.literal_eval(answer)


def replies_with(agent: str, reply: str) -> list[str]:
    """Return the replies of an agent that answers its question with this one, and again with the same."""
    if not agent.endswith("planner_part"):
        return [reply, reply]
    lines = [f"{number}. The dragon flies over hill {number}." for number in range(1, 14)]
    outline = f"<answer>{json.dumps({'outline': lines, 'always': 'One dragon.'})}</answer>"
    return [outline, reply, reply]
