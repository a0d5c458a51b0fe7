"""Planner replies made from known steps: damaged ones, and harmlessly varied ones.

`KINDS` is the table of kinds. The meaning of a reply never comes from the tested reader. A reply of a `whole`
kind must be read as its steps. One without steps is not definite and must be refused. Any other may be
refused, but if it is read, then as its steps.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from interleave_thinker.backend.core.answers.long_plan import read_part
from interleave_thinker.backend.core.answers.reading import read_plan
from interleave_thinker.backend.core.errors import AnswerError
from interleave_thinker.backend.core.types import Step

FIELDS = ("step_name", "instruction", "prompt", "auxiliary_text")
Steps = list[dict[str, Any]]

STORIES = (
    (
        (
            "The harbor",
            "Draw the empty bay.",
            "a calm bay at dawn, one red boat",
            "Very early, the boat sailed.",
        ),
        ("Signs", 'Add a sign that says "OPEN".', 'a sign "OPEN" above the door, soft light', None),
        ("Mia's hat", None, "Mia's hat, in red: the cat's favorite", "It's Mia's, she said."),
        ("Night", "Make it night; keep the boat.", "the bay at night {wide shot}, stars [tiny]", None),
    ),
    (
        ("清晨的港口", "画一个空的海湾。", "黎明时分的平静海湾，一艘红色小船", "很早的时候，小船启航了。"),
        ("招牌", "加一块写着“营业”的招牌。", "门上写着“营业”的招牌，柔和的光", None),
        ("夜晚", None, "夜晚的海湾：满天星星，小船停泊", "小船睡着了。"),
    ),
    (
        (
            "El puerto",
            "Dibuja la bahía vacía.",
            "una bahía en calma al amanecer, un barco rojo",
            "Muy temprano.",
        ),
        ("La señal", None, "un letrero «ABIERTO» sobre la puerta, luz suave", "¿Quién viene?"),
    ),
    (
        ("Der Hafen", "Zeichne die leere Bucht.", "eine ruhige Bucht im Morgengrauen, ein rotes Boot", None),
        (
            "Das Schild",
            "Füge ein Schild hinzu.",
            "ein Schild mit „OFFEN“ über der Tür",
            "„Endlich“, sagte Mia.",
        ),
    ),
    (
        ("朝の港", "空の湾を描く。", "夜明けの静かな湾、赤い船が一艘", "とても早い朝のこと。"),
        ("夜", None, "夜の湾、「開店」の看板", None),
    ),
    (
        ("الميناء", "ارسم الخليج.", "خليج هادئ عند الفجر، قارب أحمر", "في الصباح الباكر."),
        ("Гавань", "Нарисуй залив.", "тихий залив на рассвете, красная лодка", "Очень рано лодка вышла."),
    ),
)
TOLD = ("The end.", "完。", "Fin.", "Ende gut, alles gut.", "They all slept, and the boat too.")


@dataclass(frozen=True)
class Reply:
    """A planner's reply, and the steps that it means (`None`: not definite)."""

    kind: str
    text: str
    steps: Steps | None
    whole: bool = False
    numbers: range | None = None


def story(rng: random.Random, most: int = 6, first: int = 1) -> Steps:
    """Return steps with an image, and a text-only step now and then."""
    rows = rng.choice(STORIES)
    steps: Steps = []
    for number in range(first, first + rng.randint(2, most)):
        name, instruction, prompt, caption = rng.choice(rows)
        if rng.random() < 0.2:
            instruction, prompt, caption = None, None, rng.choice(TOLD)
        elif instruction is not None and rng.random() < 0.2:
            instruction = None
        values = (f"{name} {number}", instruction, prompt and f"{prompt} ({number})", caption)
        steps.append({"step_number": number, **dict(zip(FIELDS, values, strict=True))})
    return steps


def body(rng: random.Random, steps: Steps, **more: object) -> str:
    """Return the object of a plan as JSON in one of several layouts."""
    value = {"execution_plan": steps, **more}
    form = rng.choice(("short", "indented", "lines"))
    if form == "lines":
        rest = "".join(f', "{key}": {dumped(item)}' for key, item in more.items())
        return '{"execution_plan": [\n' + ",\n".join(map(dumped, steps)) + f"\n]{rest}}}"
    return json.dumps(value, ensure_ascii=False, indent=2 if form == "indented" else None)


def dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def framed(rng: random.Random, text: str) -> str:
    """Return an answer with what models write around it."""
    frames = (
        "<think>Two pages.</think>\n\n<answer>{}</answer>",
        "<answer>{}</answer>",
        "```json\n{}\n```",
        "{}",
    )
    frames += (
        "<think>a plan</think>\n{}",
        "Here is the plan:\n{}\nEnjoy.",
        "so</think><answer>\n{}\n</answer>",
    )
    return rng.choice(frames).replace("{}", text)


def marks(text: str) -> dict[str, list[int]]:
    """Return the positions of the delimiters of JSON or Python by kind, without those within texts."""
    found: dict[str, list[int]] = {
        key: [] for key in ("comma", "colon", "brace", "bracket", "open", "close", "key")
    }
    at = 0
    while at < len(text):
        one = text[at]
        if one in "\"'":
            end = at + 1
            while text[end] != one:
                end += 2 if text[end] == "\\" else 1
            if text[end + 1 :].lstrip()[:1] == ":":
                found["key"] += [at, end]
            else:
                found["open"].append(at)
                found["close"].append(end)
            at = end
        elif one in ",:{}[]":
            name = {",": "comma", ":": "colon", "{": "brace", "}": "brace"}.get(one, "bracket")
            found[name].append(at)
        at += 1
    return found


def lost(*kinds: str, times: int = 1) -> Callable[[random.Random], Reply]:
    """Return a kind that loses delimiters of these kinds."""

    def made(rng: random.Random) -> Reply:
        steps = story(rng)
        text = body(rng, steps)
        places = [place for kind in kinds for place in marks(text)[kind]]
        for place in sorted(rng.sample(places, min(times, len(places))), reverse=True):
            text = text[:place] + text[place + 1 :]
        return Reply("", framed(rng, text), steps)

    return made


def replaced(kinds: Sequence[str], by: Callable[[str], Sequence[str]]) -> Callable[[random.Random], Reply]:
    """Return a kind in which one delimiter is another text; `{}` in it is the delimiter."""

    def made(rng: random.Random) -> Reply:
        steps = story(rng)
        text = body(rng, steps)
        place = rng.choice([place for kind in kinds for place in marks(text)[kind]])
        new = rng.choice(by(text[place])).replace("{}", text[place])
        return Reply("", framed(rng, text[:place] + new + text[place + 1 :]), steps)

    return made


def truncated(rng: random.Random) -> Reply:
    """Return a reply that ends at any of its bytes."""
    steps = story(rng)
    text = framed(rng, body(rng, steps))
    cut = text.encode()[: rng.randint(1, len(text.encode()) - 1)].decode(errors="ignore")
    return Reply("", cut, steps)


def truncated_and_closed(rng: random.Random) -> Reply:
    """Return a reply that ends at any character and is then closed by a program."""
    steps = story(rng)
    text = body(rng, steps)
    end = rng.choice(
        ("</answer>", '"}]}</answer>', "}]}</answer>", "]}</answer>", "}</answer>", '"', "\n```")
    )
    cut = text[: rng.randint(20, len(text) - 2)] + end
    if _loads(re.sub(r",\s*(?=[\]}])", "", cut.removesuffix("</answer>"))) is not None:
        # Complete steps with all brackets, maybe after a comma: no reader can know.
        return Reply("", f"<answer>{text[:-3]}", steps)
    return Reply("", f"<answer>{cut}", steps)


def damaged_python(rng: random.Random) -> Reply:
    """Return a Python literal that loses one delimiter."""
    steps = story(rng)
    text = repr({"execution_plan": steps})
    place = rng.choice([place for found in marks(text).values() for place in found])
    return Reply("", framed(rng, text[:place] + text[place + 1 :]), steps)


def doubled_key(rng: random.Random) -> Reply:
    """Return a step that has one key twice, with other values; the key may be spelled in another way."""
    steps = story(rng)
    step = rng.choice(steps)
    name = rng.choice(("prompt", "auxiliary_text"))
    other = {
        "prompt": ("prompt", "Prompt", "image_prompt", "imagePrompt"),
        "auxiliary_text": ("auxiliary_text", "caption", "text"),
    }
    value = None if step[name] and rng.random() < 0.5 else "another boat on a lake"
    added = f'"{rng.choice(other[name])}": {dumped(value)}'
    text = dumped({"execution_plan": steps})
    had = f'"{name}": {dumped(step[name])}'
    place = text.index(had, text.index(f'"step_number": {step["step_number"]},'))
    new = f"{had}, {added}" if rng.random() < 0.5 else f"{added}, {had}"
    return Reply("", framed(rng, text[:place] + new + text[place + len(had) :]), None)


def plan_key_twice(rng: random.Random) -> Reply:
    """Return a plan whose steps are under the key twice, cut off anywhere."""
    steps = story(rng)
    half = len(steps) // 2
    text = f'{{"execution_plan": {dumped(steps[:half])}, "execution_plan": {dumped(steps[half:])}}}'
    cut = rng.randint(len(text) // 3, len(text))
    return Reply("", f"<think>two lists</think><answer>{text[:cut]}", steps)


def lines_cut(rng: random.Random) -> Reply:
    """Return one object for each step, in several frames, cut off at the token limit."""
    steps = story(rng)
    frame = rng.choice(
        ("{}", "<answer>\n{}", "```json\n{}", "The steps:\n{}", "[{}", "```\n[\n{}", "<answer>[{}", "[\n{}")
    )
    comma = rng.choice((",\n", "\n", ", "))
    text = comma.join(map(dumped, steps[: rng.randint(2, len(steps))]))
    cut = text if rng.random() < 0.5 else text[: rng.randint(len(text) // 2, len(text))]
    end = rng.choice(("", "", comma, "\n"))
    more = steps[-1] | {"step_number": len(steps) + 1}
    return Reply("", frame.replace("{}", cut + end), [*steps, more])


def answers_cut(rng: random.Random) -> Reply:
    """Return one answer or fence for each step, cut off at the token limit."""
    steps = story(rng)
    frame = rng.choice(
        (
            "<answer>{}</answer>",
            "```json\n{}\n```",
            '<answer>{"execution_plan": [{}]}</answer>',
            "```\n[{}]\n```",
        )
    )
    text = "\n".join(frame.replace("{}", dumped(step)) for step in steps)
    # A first piece alone would be a whole plan of one step.
    second = text.index('"step_name"', text.index('"step_number": 2'))
    cut = text if rng.random() < 0.3 else text[: rng.randint(second, len(text))]
    return Reply("", cut, [*steps, steps[-1] | {"step_number": len(steps) + 1}])


def headless(rng: random.Random) -> Reply:
    """Return a plan that lost its beginning, so that only some steps are alone."""
    steps = story(rng, 8)
    lines = f'{{"execution_plan": [{dumped(steps[0])},\n' + ",\n".join(map(dumped, steps[1:])) + "\n]}"
    text = lines[rng.choice((1, rng.randint(1, len(lines) // 2))) :]
    frame = rng.choice(("<answer>{}</answer>", "{}", "```json\n{}\n```"))
    return Reply("", frame.replace("{}", text), steps)


def lost_chunk(rng: random.Random) -> Reply:
    """Return a reply that lost some characters in a row: a dropped piece of a stream."""
    steps = story(rng)
    for _ in range(50):
        text = body(rng, steps)
        at = rng.randrange(2, len(text) - 6)
        new = text[:at] + text[at + rng.randint(2, 80) :]
        # A chunk within one text, or a whole member or step, leaves a valid plan: no reader can know.
        if _loads(new) is None and not _only_text(text, new):
            return Reply("", framed(rng, new), steps)
    return Reply("", "", steps)


def _only_text(text: str, new: str) -> bool:
    """Return whether two bodies have the same delimiters, so that only characters of texts differ."""
    strip = re.compile(r'\\.|[^"{}\[\],:\n]')
    return strip.sub("", text) == strip.sub("", new)


def swapped_chunks(rng: random.Random) -> Reply:
    """Return a reply in which two pieces of a stream changed places."""
    steps = story(rng)
    for _ in range(50):
        text = body(rng, steps)
        a, b, c = sorted(rng.sample(range(len(text)), 3))
        new = text[:a] + text[b:c] + text[a:b] + text[c:]
        if _loads(new) is None:
            return Reply("", framed(rng, new), None)
    return Reply("", "", steps)


def with_prompt(value: Sequence[object], instruction: bool = True) -> Callable[[random.Random], Reply]:
    """Return a kind with a step whose prompt is one of these values; `...` leaves the key out."""

    def made(rng: random.Random) -> Reply:
        steps = story(rng)
        step = rng.choice(steps)
        step["instruction"] = "Add a small lantern to the boat." if instruction else None
        step["auxiliary_text"] = rng.choice((None, "A light!")) if instruction else "A light!"
        step["prompt"] = rng.choice(value)
        if step["prompt"] is ...:
            del step["prompt"]
        return Reply("", framed(rng, body(rng, steps)), None)

    return made


def misspelled(rng: random.Random) -> Reply:
    """Return a step whose prompt is under a damaged key."""
    steps = story(rng)
    step = rng.choice(steps)
    step |= {"instruction": "Add a lantern.", "auxiliary_text": rng.choice((None, "A light!"))}
    prompt = step.pop("prompt") or "a lantern on the boat"
    step[
        rng.choice(("promt", "prompt_text", "prom", "rompt", "pro_mpt", "draw", "image", "提示词", "提示"))
    ] = prompt
    return Reply("", framed(rng, body(rng, steps)), None)


def unescaped(rng: random.Random) -> Reply:
    """Return texts with quotes that are not escaped."""
    steps = story(rng)
    for step in steps:
        step["prompt"] = rng.choice(('a sign "OPEN" at the door', 'the "red" boat, "blue" sky', "a boat"))
        step["auxiliary_text"] = rng.choice((None, 'She said "hello", he "hi".', 'It was "late".'))
    return Reply("", framed(rng, body(rng, steps).replace('\\"', '"')), steps)


def unescaped_keys(rng: random.Random) -> Reply:
    """Return a text that quotes keys without escaping them."""
    steps = story(rng)
    step = rng.choice(steps)
    step["prompt"] = rng.choice(
        (
            'a page of code: "prompt": "a fox", end',
            'a label "prompt" "text" in red',
            'a note: {"instruction": null, "prompt": "x"} on paper',
        )
    )
    return Reply("", framed(rng, body(rng, steps).replace('\\"', '"')), None)


def word_for_null(rng: random.Random) -> Reply:
    """Return null as a word of another language or without its end."""
    steps = story(rng)
    steps[-1] |= {"instruction": None, "prompt": None, "auxiliary_text": "The end."}
    text = dumped({"execution_plan": steps})
    word = rng.choice(("undefined", "nil", "nul", "NULL", "N/A", "Non", "none at all", "-", "(none)", "空"))
    place = text.rindex('"prompt": null')
    return Reply("", framed(rng, text[:place] + text[place:].replace("null", word, 1)), steps)


def unquoted(rng: random.Random) -> Reply:
    """Return a step whose texts are without quotes."""
    steps = story(rng)
    text = dumped({"execution_plan": steps})
    step = next((one for one in steps if one["prompt"]), steps[0])
    bare = (step["prompt"] or "").replace('"', "")
    return Reply("", framed(rng, text.replace(dumped(step["prompt"]), bare) if bare else text), steps)


def wrong_quotes(rng: random.Random) -> Reply:
    """Return a plan in which some delimiters are quotes of another kind."""
    steps = story(rng)
    text = body(rng, steps)
    places = [place for kind in ("open", "close", "key") for place in marks(text)[kind]]
    for place in sorted(rng.sample(places, min(rng.randint(1, 3), len(places))), reverse=True):
        text = text[:place] + rng.choice("'“”‘’`") + text[place + 1 :]
    return Reply("", framed(rng, text), steps)


def list_with_more(rng: random.Random) -> Reply:
    """Return a plan that leaves steps out in words."""
    steps = story(rng)
    more = rng.choice(
        ("...", '"..."', "// and so on", "# more steps", '"(more steps)"', "{...}", "{}", "null", "…")
    )
    text = dumped(steps[:-1])[:-1] + f", {more}]"
    return Reply("", framed(rng, f'{{"execution_plan": {text}}}'), None)


def restarted(rng: random.Random) -> Reply:
    """Return a plan that begins again within its list, or is followed by another one."""
    steps = story(rng)
    others = [step | {"step_name": "Other"} for step in steps]
    if rng.random() < 0.5:
        return Reply("", framed(rng, dumped({"execution_plan": steps + others})), None)
    return Reply("", f"{dumped({'execution_plan': steps})}\n\n{dumped({'execution_plan': others})}", None)


def by_number_cut(rng: random.Random) -> Reply:
    """Return steps under their numbers, cut off."""
    steps = story(rng)
    text = dumped({"execution_plan": {str(step["step_number"]): step for step in steps}})
    return Reply("", f"<answer>{text[: rng.randint(len(text) // 2, len(text) - 1)]}", steps)


def enveloped(rng: random.Random) -> tuple[Steps, str]:
    steps = story(rng)
    outer = rng.choice(("result", "plan", "data", "output"))
    plan: Any = {
        rng.choice(("execution_plan", "plan", "steps")) if outer == "plan" else "execution_plan": steps
    }
    if rng.random() < 0.5:
        plan = {"reasoning": "two", **plan}
    return steps, dumped({outer: plan})


def envelope_cut(rng: random.Random) -> Reply:
    """Return a plan in another object, cut off."""
    steps, text = enveloped(rng)
    return Reply("", f"<answer>{text[: rng.randint(len(text) // 2, len(text) - 1)]}", steps)


def encoded_cut(rng: random.Random) -> Reply:
    """Return a plan as an encoded text, whole or damaged."""
    steps = story(rng)
    inner = dumped(steps)
    if rng.random() < 0.7:
        place = rng.choice([place for found in marks(inner).values() for place in found])
        inner = inner[:place] + inner[place + 1 :]
    return Reply("", framed(rng, dumped({"execution_plan": inner})), steps)


def broken_lines(rng: random.Random) -> Reply:
    """Return texts with line breaks that are not escaped."""
    steps = story(rng)
    for step in steps:
        if step["prompt"]:
            step["prompt"] = step["prompt"].replace(", ", ",\n", 1)
    return Reply("", framed(rng, body(rng, steps).replace("\\n", "\n")), steps)


def part(rng: random.Random) -> Reply:
    """Return a part of a long plan with a damage of another kind."""
    first = rng.choice((1, 5, 9, 13))
    steps = story(rng, 5, first)
    numbers = range(first, first + len(steps))
    text = body(rng, steps, state="The boat is red, Mia has a hat.")
    kind = rng.randrange(4)
    if kind == 0:
        text = text[: rng.randint(20, len(text) - 1)]
    elif kind == 1:
        place = rng.choice([place for found in marks(text).values() for place in found])
        text = text[:place] + text[place + 1 :]
    elif kind == 2:
        text = "\n".join(map(dumped, steps[: rng.randint(2, len(steps))]))
    else:
        text = text.replace('"prompt": null', '"promt": null', 1)
        step = next((one for one in steps if one["prompt"]), None)
        if step:
            step["instruction"] = "Draw the bay."
            text = body(rng, steps, state="x").replace(dumped(step["prompt"]), '""', 1)
        return Reply("", f"<answer>{text}</answer>", None if step else steps, numbers=numbers)
    return Reply("", f"<think>part</think><answer>{text}", steps, numbers=numbers)


def long_damaged(rng: random.Random) -> Reply:
    """Return a plan of many steps, cut off or without one delimiter."""
    steps = story(rng, 40)
    text = body(rng, steps)
    if rng.random() < 0.5:
        return Reply("", f"<answer>{text[: rng.randint(len(text) // 2, len(text) - 1)]}", steps)
    place = rng.choice([place for found in marks(text).values() for place in found])
    return Reply("", framed(rng, text[:place] + text[place + 1 :]), steps)


def varied(make: Callable[[random.Random, Steps], str]) -> Callable[[random.Random], Reply]:
    """Return a kind that is whole, only in another form."""

    def made(rng: random.Random) -> Reply:
        steps = story(rng)
        return Reply("", make(rng, steps), steps, whole=True)

    return made


def _whole_envelope(rng: random.Random) -> Reply:
    steps, text = enveloped(rng)
    return Reply("", f"<answer>{text}</answer>", steps, whole=True)


def _whole_part(rng: random.Random) -> Reply:
    first = rng.choice((1, 5, 9, 13))
    steps = story(rng, 5, first)
    given = steps if rng.random() < 0.7 else [one | {"step_number": n} for n, one in enumerate(steps, 1)]
    text = f"<think>a part</think><answer>{body(rng, given, state='Mia has a hat.')}</answer>"
    return Reply("", text, steps, True, range(first, first + len(steps)))


def _told_in_instruction(rng: random.Random) -> Reply:
    steps = story(rng)
    written = [dict(step) for step in steps]
    for step in written:
        if step["prompt"] is None:
            step |= {"instruction": step["auxiliary_text"], "auxiliary_text": None}
    return Reply("", framed(rng, body(rng, written)), steps, whole=True)


def _closed(text: str, rng: random.Random) -> str:
    return rng.choice(
        ("<answer>{}</answer>", "```json\n{}\n```", "<think>a</think><answer>\n{}\n</answer>")
    ).replace("{}", text)


KINDS: dict[str, Callable[[random.Random], Reply]] = {
    "lost comma": lost("comma"),
    "lost colon": lost("colon"),
    "lost opening quote": lost("open"),
    "lost closing quote": lost("close"),
    "lost quote of a key": lost("key"),
    "lost brace": lost("brace"),
    "lost bracket": lost("bracket"),
    "two delimiters lost": lost("comma", "colon", "open", "close", "key", "brace", "bracket", times=2),
    "four delimiters lost": lost("comma", "colon", "open", "close", "key", "brace", times=4),
    "doubled delimiter": replaced(
        ("comma", "colon", "brace", "bracket", "open", "close", "key"), lambda _: ("{}{}",)
    ),
    "other bracket": replaced(("brace", "bracket"), lambda one: "][" if one in "{}" else "}{"),
    "full-width punctuation": replaced(("comma", "colon"), lambda one: "，" if one == "," else "："),
    "semicolon or equals sign": replaced(("comma", "colon"), lambda one: ";|" if one == "," else "=-"),
    "characters inserted": replaced(
        ("comma", "colon", "close"),
        lambda _: ("{} x", "{}\\", "{}//", "{}ok,", '{}"', "{}\ufffd", "{}</s>", "{}**"),
    ),
    "wrong quotes": wrong_quotes,
    "Python with a lost delimiter": damaged_python,
    "truncated": truncated,
    "truncated, then closed": truncated_and_closed,
    "long, damaged": long_damaged,
    "doubled key": doubled_key,
    "plan key twice, cut": plan_key_twice,
    "one object per line, cut": lines_cut,
    "one answer per step, cut": answers_cut,
    "lost beginning": headless,
    "lost chunk": lost_chunk,
    "swapped chunks": swapped_chunks,
    "empty prompt with an instruction": with_prompt(("", " ", "\n", "  \t")),
    "prompt left out": with_prompt((...,)),
    "prompt of another type": with_prompt((5, True, False, [], {}, ["a boat"], {"text": "a boat"})),
    "misspelled prompt": misspelled,
    "quotes not escaped": unescaped,
    "quoted keys not escaped": unescaped_keys,
    "word for null": word_for_null,
    "unquoted text": unquoted,
    "steps left out": list_with_more,
    "begins again": restarted,
    "steps by number, cut": by_number_cut,
    "envelope, cut": envelope_cut,
    "encoded text, damaged": encoded_cut,
    "line breaks not escaped": broken_lines,
    "part of a long plan": part,
    "whole: as asked": varied(lambda rng, steps: framed(rng, body(rng, steps))),
    "whole: Python literal": varied(lambda rng, steps: framed(rng, repr({"execution_plan": steps}))),
    "whole: escaped": varied(lambda rng, steps: framed(rng, json.dumps({"execution_plan": steps}))),
    "whole: trailing commas": varied(
        lambda rng, steps: framed(rng, dumped({"execution_plan": steps}).replace("}]}", "},],}"))
    ),
    "whole: number as text": varied(
        lambda rng, steps: framed(
            rng, body(rng, [one | {"step_number": f"{one['step_number']}"} for one in steps])
        )
    ),
    "whole: no closing tag": varied(lambda rng, steps: f"<think>a</think><answer>{body(rng, steps)}"),
    "whole: no last brace": varied(
        lambda rng, steps: f"<answer>{dumped({'execution_plan': steps})[:-1]}</answer>"
    ),
    "whole: word None": varied(
        lambda rng, steps: framed(
            rng, body(rng, [{k: "None" if v is None else v for k, v in one.items()} for one in steps])
        )
    ),
    "whole: bare list": varied(lambda rng, steps: _closed(dumped(steps), rng)),
    "whole: one object per line": varied(lambda rng, steps: _closed("\n".join(map(dumped, steps)), rng)),
    "whole: other names": varied(
        lambda rng, steps: framed(
            rng,
            dumped(
                {
                    "plan": [
                        {
                            {"step_number": "step", "step_name": "title", "auxiliary_text": "caption"}.get(
                                k, k
                            ): v
                            for k, v in one.items()
                        }
                        for one in steps
                    ]
                }
            ),
        )
    ),
    "whole: envelope": _whole_envelope,
    "whole: text in the instruction": _told_in_instruction,
    "whole: part of a long plan": _whole_part,
}


def replies(count: int, seed: int = 0) -> Iterator[Reply]:
    """Yield replies of all kinds in turn."""
    names = list(KINDS)
    for number in range(count):
        kind = names[number % len(names)]
        made = KINDS[kind](random.Random(f"{seed} {number}"))
        yield Reply(kind, made.text, made.steps, made.whole, made.numbers)


JSON_IN_TEXT = re.compile(
    r"[\"'“”]\s*[:：]\s*[\"'“”{\[nNtTfF\d]|[\"'“”]\s*,\s*[\"'“”]\w+[\"'“”]\s*:|[\"'“”]?(?:step_number|step_name|auxiliary_text)\b"
)


def fault_of(reply: Reply) -> str:
    """Return what is wrong with how a reply is read; empty if nothing is."""
    try:
        if reply.numbers is None:
            steps = read_plan(reply.text).steps
        else:
            steps = read_part(reply.text, reply.numbers).steps
    except AnswerError:
        return "not read" if reply.whole else ""
    return _difference(steps, reply.steps)


def _difference(steps: Sequence[Step], meant: Steps | None) -> str:
    if any(JSON_IN_TEXT.search(text) for step in steps for text in (step.name, step.prompt or "")):
        return "JSON in a text"
    if meant is None:
        return "guessed"
    if [step.number for step in steps] != [one["step_number"] for one in meant]:
        return "steps lost"
    for step, one in zip(steps, meant, strict=True):
        if bool(step.prompt) != bool(one["prompt"]):
            return "image step became text-only" if one["prompt"] else "text-only step became an image"
    read = [(step.name, step.instruction, step.prompt, step.auxiliary_text) for step in steps]
    said = [tuple(one[field] for field in FIELDS) for one in meant]
    return "" if read == said else "other texts"


def _loads(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None
