"""Critic replies made from a known verdict, as models and failures write them, and every way in which they are read.

`KINDS` is the table of kinds. The meaning of a reply never comes from the tested reader. Replies of `MUST` kinds
have a definite verdict and must be read. The others may be refused, and never be read as the opposite. Replies
that say `None` say nothing definite, or two things.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from interleave_thinker import AnswerError, Reply, ReplySettings
from interleave_thinker.backend.core.answers.reading import read_verdict
from interleave_thinker.backend.core.remote.api_keys import KeyMask
from interleave_thinker.backend.models.chat.local.generation import ReplyListener
from interleave_thinker.backend.models.chat.streamed_reply import Chunk, StreamedReply
from interleave_thinker.backend.models.chat.verdict_watch import VerdictWatch

AT = "\x01"
"""Marks the end of the verdict's word while a reply is built, and is not part of the reply."""
SAID = {True: ("true", "True"), False: ("false", "False")}
KEYS = ("previousStepSuccess", "Previous Step Success", "success")
PAYLOADS = ("data", "arguments", "tool_result")
PROMPTS = ("the cat's hat, in red", 'a sign that says "open"', "two\nlines, a / b", "wait for a “blue” boat")
THOUGHTS = {
    True: ("It is red as asked.", "The hat was missing before, now it is there.", "符合要求。"),
    False: ("The hat is missing.", "So the step did not work.", "没有帽子，所以失败了。"),
}
AGREES = {
    True: (
        "The step was successful.",
        "**Verdict:** true.",
        "Hope this helps!",
        "Das Bild passt zum Prompt.",
    ),
    False: ("The step failed, since the boat is green.", "**Verdict:** false.", "没有帽子。"),
}
TAKEN_BACK = {
    True: (
        "Final verdict: FAIL", "Wait, that is wrong: the hat is missing.", "The scarf was supposed to be red.",
        "On reflection, this image should be rejected.", "**Result:** ❌", "Score: 2/10", "(not really)",
        "<verdict>FAIL</verdict>", "[REJECTED]", '{"verdict": "needs work"}', "N/A", "Result: 0",
        "Endgültiges Urteil: nicht bestanden", "En fait, le chapeau manque, donc c'est un échec.",
        "En realidad, falta el sombrero.", "Aspetta, manca il cappello, quindi non va bene.",
        "Na verdade, falta o chapéu, então falhou.", "Eindoordeel: mislukt", "Jednak kapelusza nie ma.",
        "Aslında şapka yok, yani olmadı.", "Итоговый вердикт: провал", "更正：错误。", "訂正：偽",
        "최종 판정: 불합격", "في الواقع القبعة مفقودة.", "असल में टोपी गायब है।", "Thật ra chiếc mũ bị thiếu.",
        "false", "No.", "不合格。", "nein", "0",
    ),
    False: ("Final verdict: PASS", "Correction: true.", "Final answer: Yes", "`true`", "Accepted"),
}  # fmt: skip
OTHER_FIELDS: dict[str, tuple[Any, Any]] = {
    "passed": (True, False), "verdict": ("PASS", "FAIL"), "failed": (False, True),
    "step_passed": ("yes", "no"), "outcome": ("successful", "unsuccessful"), "overall": ("OK", "not OK"),
    "conclusion": ("The step succeeded.", "The step failed."), "matches_prompt": ("true", "false"),
}  # fmt: skip
FOREIGN_FIELDS: dict[str, tuple[Any, Any]] = {
    "上一步成功": (True, False), "判定": ("合格", "不合格"), "bestanden": ("ja", "nein"),
    "resultado": ("aprobado", "fallo"), "шаг_успешен": (True, False),
}  # fmt: skip
FREE_FIELDS = (
    ("confidence", 0.3), ("note", "a poster: {'success': false} and more"), ("tags", ["boat", "hat"]),
    ("reasoning", 'It failed at first. Now see: {"success": true}?'), ("model", {"name": "critic"}),
)  # fmt: skip
FAULT_FIELDS = ("issues", "missing_elements", "mistake", "result", "differences", "Fehler", "недостатки")
FAULTS: tuple[Any, ...] = (
    "The dog is missing from the picture", ["the boat is green instead of red"], "the image does not show the boat",
    {"boat": "it looks green"}, "Der Hut hat die falsche Farbe", "le bateau manque", "la barca es verde", "帽子是绿色的。",
)  # fmt: skip
RATINGS = (("score", 2), ("overall_rating", "3/10"), ("quality", 0.1), ("errors", 2), ("issues_found", True))
HARMLESS_FIELDS = (
    ("reasoning_summary", "all as asked"), ("confidence", "high"), ("issues", []), ("issues", "none"), ("问题", "无"),
    ("problems", "n/a"), ("missing_elements", [""]), ("error", None), ("errors", 0), ("has_artifacts", "no"),
    ("mistakes", "No mistakes found."), ("problem", "Nothing."), ("needs_retry", False), ("score", 9), ("step", 2),
    ("score", 0.95), ("rating", "9/10"), ("match_percentage", "95%"), ("result", "The boat is red as asked."),
    ("elements", {"boat": True}), ("image_description", "A red boat."), ("detected_objects", ["red boat"]),
    ("summary", "Good."), ("feedback", "Well done, the boat is red."), ("probleme", "keine"), ("overall", "perfect"),
)  # fmt: skip
FAMILIES: dict[str, tuple[str, str, str]] = {
    "gpt-oss": ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>", ""),
    "gpt-oss without tokens": ("analysis", "assistantfinal", ""),
    "Cohere": ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>", "<|END_RESPONSE|>"),
    "Gemma": ("<|channel>thought\n", "<channel|>", "<turn|>"),
    "DeepSeek": ("<think>\n", "\n</think>\n\n", "<｜end▁of▁sentence｜>"),
    "Mistral": ("[THINK]", "[/THINK]", "</s>"),
    "Kimi": ("◁think▷", "◁/think▷", "<|im_end|>"),
    "Apertus": ("<|inner_prefix|>", "<|inner_suffix|>", "<|assistant_end|>"),
    "Solar": ("<|think|>", "<|end|><|begin|>assistant<|content|>", "<|end|>"),
    "GLM": ("<think>", "</think>\n<|begin_of_box|>", "<|end_of_box|>"),
    "EXAONE": ("<thought>\n", "\n</thought>\n\n", "[|endofturn|]"),
    "tags with attributes": ("<chain-of-thought type='first'>\n", "\n</chain-of-thought>\n", "<sep>"),
    "tags in Chinese": ("<思考>\n", "\n</思考>\n", ""),
}
COMMENTS = ("<!-- {0} -->", "/*\n{0}\n*/", "{{# {0} #}}", "<!--\nexample:\n{0}\n", "// {0}", "> {0}")
MENTIONS = (
    "I cannot answer {0}: the hat is missing.", "If the hat were there, I would answer:\n{0}", "Is it {0}?",
    "The form of the answer is:\n```json\n{0}\n```", "Should I write\n{0}\n?",
)  # fmt: skip
PROSE = ("success", "The step was successful and accepted.", "{}", "<answer>true</answer>", "成功", "")
UNSURE = ("true or false", "true/false", '"maybe"', "0.7", "null", "[true, false]", '"mostly true"')
SPELLED = (
    "previous_step_success：{0}", "success: {0}", "<success>{0}</success>", "{{success={0}}}",
    "| previous_step_success | {0} |", "{{“success”: {0}}}", "{{&quot;success&quot;: {0}}}",
    "previous_step_success is {0}.", "**previous_step_success**: {0}", "{{previous_step_success: {0}}}",
)  # fmt: skip
STATED = ("**Verdict:** rejected", "Success: false", "The step failed.", "Urteil: nicht bestanden", "Échec.")


@dataclass(frozen=True)
class Made:
    """A reply and its meaning.

    Attributes:
        text: The reply.
        says: Its verdict; `None` if there is none, or two.
        kind: Kind of the reply.
        must: It has to be read.
        thinking: The prompt had opened <think>.
        cut: It ended at the token limit.
        held: It is constrained to the grammar of verdicts.
    """

    text: str
    says: bool | None
    kind: str = ""
    must: bool = False
    thinking: bool = False
    cut: bool = False
    held: bool = False


Making = Callable[[random.Random, bool], Made]


def literal(text: str, quote: str) -> str:
    """Return a text in quotes of this kind, properly escaped."""
    return quote + text.replace("\\", "\\\\").replace(quote, "\\" + quote).replace("\n", "\\n") + quote


def answer(
    rng: random.Random,
    says: bool,
    refined: str | None = None,
    extra: dict[str, Any] | None = None,
    key: str = "",
) -> str:
    """Return an answer in the requested format, as JSON or as a Python literal, with further members."""
    python = rng.random() < 0.4
    quote = "'" if python else '"'
    refined = rng.choice(("", *PROMPTS)) if refined is None else refined
    members = [
        f"{quote}{key or 'previous_step_success'}{quote}: {SAID[says][python]}{AT}",
        f"{quote}{'refinePrompt' if key else 'refine_prompt'}{quote}: {literal(refined, quote)}",
    ]
    for name, value in (extra or {}).items():
        written = repr(value) if python else json.dumps(value, ensure_ascii=False)
        members.insert(rng.randint(0, len(members)), f"{literal(name, quote)}: {written}")
    return "{" + rng.choice((", ", ",\n  ")).join(members) + "}"


def formed(rng: random.Random, says: bool, body: str = "") -> str:
    """Return a reply in one of the forms in which agents write their answers."""
    body = body or answer(rng, says)
    if rng.random() < 0.25:
        body = f"```{rng.choice(('json', 'python', ''))}\n{body}\n```"
    forms = (
        "<think>{1}</think>\n\n<answer>{0}</answer>",
        "<answer>\n{0}\n</answer>",
        "{0}",
        "<think>{1}</think>\n{0}",
    )
    return rng.choice(forms).format(body, rng.choice(THOUGHTS[says]))


def draft(rng: random.Random, says: bool) -> str:
    """Return an answer that a thought considers."""
    forms = ("Is it {0} ?", "\n{0}\n", "```json\n{0}\n```\n", "<answer>{0}</answer>\n")
    return rng.choice(forms).format(answer(rng, says).replace(AT, ""))


def thought(rng: random.Random, says: bool) -> str:
    """Return a thought that ends with this verdict after a draft of the other one."""
    return f"{rng.choice(THOUGHTS[not says])} {draft(rng, not says)}No, wait. {rng.choice(THOUGHTS[says])}"


def wide(says: bool) -> str:
    """Return an answer with full-width punctuation."""
    return f"{{“previous_step_success”：{SAID[says][0]}{AT}，“refine_prompt”：“add a hat”}}"


def opened(rng: random.Random, says: bool) -> Made:
    text = f"{thought(rng, says)}</think>\n\n<answer>{answer(rng, says)}</answer>"
    return Made(text, says, thinking=True)


def quoted_prompt(rng: random.Random, says: bool) -> Made:
    frames = ("<answer>{0}</answer>", "a poster: {0}", "</think>{0}", "Verdict: FAIL, {0}")
    quote = rng.choice(frames).format(answer(rng, not says, "").replace(AT, ""))
    return Made(formed(rng, says, answer(rng, says, quote)), says)


def family(rng: random.Random, says: bool) -> Made:
    begin, middle, end = rng.choice(list(FAMILIES.values()))
    body = rng.choice(("{0}", "<answer>{0}</answer>")).format(answer(rng, says))
    return Made(f"{begin}{thought(rng, says)}{middle}{body}{end}", says)


def held(rng: random.Random, says: bool) -> Made:
    thinking = rng.random() < 0.3
    forms = ("<think>{1}</think>\n{0}", "{0}\n<think>{1}</think>", "{0}")
    form = "{1}</think>\n{0}" if thinking else rng.choice(forms)
    text = f"<answer>{answer(rng, says, 'a red hat')}</answer>"
    return Made(form.format(text, rng.choice(THOUGHTS[says])), says, thinking=thinking, held=True)


def faulty(rng: random.Random, says: bool) -> Made:
    """Return a reply in which another field names a fault, which contradicts only a true verdict."""
    field = rng.choice((rng.choice(RATINGS), *[(rng.choice(FAULT_FIELDS), rng.choice(FAULTS))] * 4))
    return Made(formed(rng, says, answer(rng, says, extra=dict([field]))), None if says else False)


def wrapped(rng: random.Random, inner: Any, most: int = 3) -> Any:
    """Return a value in other objects, lists and encoded texts."""
    for _ in range(rng.randint(1, most)):
        forms = (inner, [inner], json.dumps(inner), repr(inner), f"```json\n{json.dumps(inner)}\n```")
        inner = {rng.choice(PAYLOADS): rng.choice(forms)}
    return inner


def envelope(rng: random.Random, says: bool) -> Made:
    inner = {rng.choice(("previous_step_success", *KEYS)): not says, "refine_prompt": "add a hat"}
    text = json.dumps({"success": says, **wrapped(rng, inner)})
    return Made(rng.choice(("{0}", "<answer>{0}</answer>")).format(text), None)


def field_against(fields: dict[str, tuple[Any, Any]], nested: bool = False) -> Making:
    """Return a kind with a field that contradicts the verdict, which may be deeper in the answer."""

    def made(rng: random.Random, says: bool) -> Made:
        name = rng.choice(sorted(fields))
        field = {name: fields[name][says]}
        return Made(
            formed(rng, says, answer(rng, says, extra=wrapped(rng, field) if nested else field)), None
        )

    return made


def followed(by: Callable[[random.Random, bool], str], agrees: bool = False) -> Making:
    """Return a kind in which other words or objects follow the answer."""

    def made(rng: random.Random, says: bool) -> Made:
        between = "\n\n" if agrees else rng.choice((" ", "\n", "\n\n"))
        return Made(f"{formed(rng, says)}{between}{by(rng, says)}", says if agrees else None)

    return made


def cut_thought(begin: Callable[[random.Random], str], thinking: bool) -> Making:
    """Return a kind that breaks off within its thought, after a draft or its correction."""

    def made(rng: random.Random, says: bool) -> Made:
        first = begin(rng)
        text = first + thought(rng, says)
        return Made(text[: rng.randint(max(1, len(first)), len(text))], None, thinking=thinking, cut=thinking)

    return made


def cut_back(rng: random.Random, says: bool) -> Made:
    """Cut a reply off within the words that take its answer back."""
    words = rng.choice([one for one in TAKEN_BACK[True] if len(one) > 7])
    return Made(f"{formed(rng, True)}\n{words[: rng.randint(3, len(words))]}", None, cut=rng.random() < 0.5)


def cut(rng: random.Random, says: bool) -> Made:
    made = rng.choice((MUST["plain"], opened, family, MUST["free fields"]))(rng, says)
    end = rng.randint(0, len(made.text) - 1)
    return replace(made, text=made.text[:end], says=says if made.text.index(AT) < end else None, cut=True)


def lost_piece(rng: random.Random, says: bool) -> Made:
    made = rng.choice((MUST["plain"], MUST["answer first"], opened))(rng, says)
    piece = rng.choice(("</think>", "</answer>", "<answer>", "<think>", '"', "'", ",", "}", ":", "{", "\\"))
    places = [at for at in range(len(made.text)) if made.text.startswith(piece, at)]
    if not places:
        return made
    at = rng.choice(places)
    lost = made.text[:at] + made.text[at + len(piece) :]
    # Without the end of its thought a reply is only thought.
    closes = "</think>" in lost or "</think>" not in made.text or made.text.startswith("<answer>")
    return replace(made, text=lost, says=made.says if closes else None)


def unescaped(rng: random.Random, says: bool) -> Made:
    quote = rng.choice("\"'")
    refined = f"a {quote}{rng.choice(('open', 'a, b', draft(rng, not says)))}{quote} sign"
    members = [
        f"{quote}success{quote}: {SAID[says][0]}{AT}",
        f"{quote}refine_prompt{quote}: {quote}{refined}{quote}",
    ]
    rng.shuffle(members)
    return Made(rng.choice(("<answer>{{{0}}}</answer>", "{{{0}}}")).format(", ".join(members)), says)


def says_it(text: Callable[[random.Random, bool], str]) -> Making:
    return lambda rng, says: Made(text(rng, says), says)


def says_nothing(text: Callable[[random.Random, bool], str]) -> Making:
    return lambda rng, says: Made(text(rng, says), None)


MUST: dict[str, Making] = {
    "plain": says_it(formed),
    "answer first": says_it(
        lambda rng, says: f"<answer>{answer(rng, says)}</answer>\n<think>{rng.choice(THOUGHTS[says])}</think>"
    ),
    "thought opened by the prompt": opened,
    "corrected in its thought": says_it(
        lambda rng, says: f"<think>{thought(rng, says)}</think>\n<answer>{answer(rng, says)}</answer>"
    ),
    "other spelling": says_it(
        lambda rng, says: f"<answer>{answer(rng, says, key=rng.choice(KEYS))[:-1]},}}</answer>"
    ),
    "full width": says_it(lambda rng, says: formed(rng, says, wide(says))),
    "prose after, agrees": followed(lambda rng, says: rng.choice(AGREES[says]), agrees=True),
    "prose before, agrees": says_it(lambda rng, says: f"{rng.choice(AGREES[says])}\n{answer(rng, says)}"),
    "fields that agree": says_it(
        lambda rng, says: formed(
            rng,
            says,
            answer(
                rng,
                says,
                extra={name: OTHER_FIELDS[name][not says] for name in rng.sample(sorted(OTHER_FIELDS), 2)},
            ),
        )
    ),
    "free fields": says_it(
        lambda rng, says: formed(rng, says, answer(rng, says, extra=dict(rng.sample(FREE_FIELDS, 2))))
    ),
    "harmless fields": lambda rng, says: Made(
        formed(rng, True, answer(rng, True, extra=dict(rng.sample(HARMLESS_FIELDS, 2)))), True
    ),
    "faults named, rejected": lambda rng, says: faulty(rng, False),
    "quoted in the prompt": quoted_prompt,
    "twice the same": says_it(
        lambda rng, says: "\n".join([f"<answer>{answer(random.Random(0), says, 'a red hat')}</answer>"] * 2)
    ),
    "thought of a family": family,
    "constrained": held,
}
MAY: dict[str, Making] = {
    "cut at any byte": cut,
    "lost piece": lost_piece,
    "quotes not escaped": unescaped,
    "without braces": says_it(lambda rng, says: answer(rng, says).strip("{}\n")),
    "envelope that agrees": says_it(
        lambda rng, says: formed(
            rng, says, json.dumps({"success": says, **wrapped(rng, {"previous_step_success": says}, 1)})
        )
    ),
}
NOTHING: dict[str, Making] = {
    "taken back": followed(lambda rng, says: rng.choice(TAKEN_BACK[says])),
    "contradicted before": says_nothing(lambda rng, says: f"{rng.choice(STATED)}\n\n{answer(rng, True)}"),
    "field against": field_against(OTHER_FIELDS),
    "faults named, accepted": lambda rng, says: faulty(rng, True),
    "nested field against": field_against(OTHER_FIELDS, nested=True),
    "foreign field against": field_against(FOREIGN_FIELDS),
    "other object against": followed(
        lambda rng, says: json.dumps({"verdict": OTHER_FIELDS["verdict"][says]})
    ),
    "only in a comment": says_nothing(
        lambda rng, says: f"{rng.choice(COMMENTS).format(answer(rng, says))}\nThe boat, the hat."
    ),
    "comment against": followed(
        lambda rng, says: rng.choice(COMMENTS[:4]).format(answer(rng, not says, "add a hat").replace(AT, ""))
    ),
    "other spelling against": followed(lambda rng, says: rng.choice(SPELLED).format(SAID[not says][0])),
    "two answers": followed(lambda rng, says: rng.choice(("", "Correction: ")) + formed(rng, not says)),
    "two spellings": followed(lambda rng, says: answer(rng, not says, key=rng.choice(KEYS)).replace(AT, "")),
    "envelope against": envelope,
    "family thought, cut off": cut_thought(
        lambda rng: rng.choice(list(FAMILIES.values()))[0], thinking=False
    ),
    "open thought": cut_thought(lambda rng: "", thinking=True),
    "only mentioned": says_nothing(lambda rng, says: rng.choice(MENTIONS).format(answer(rng, True))),
    "unsure": says_nothing(
        lambda rng, says: formed(rng, says, f'{{"success": {rng.choice(UNSURE)}, "refine_prompt": "..."}}')
    ),
    "prose alone": says_nothing(lambda rng, says: rng.choice(PROSE)),
    "taken back, cut off": cut_back,
}
KINDS = MUST | MAY | NOTHING


def make(number: int) -> Made:
    """Return the reply with this number. The kinds take turns."""
    rng = random.Random(number)
    kind = list(KINDS)[number % len(KINDS)]
    made = KINDS[kind](rng, rng.random() < 0.5)
    return replace(made, text=made.text.replace(AT, ""), kind=kind, must=kind in MUST)


class _Pieces:
    """A tokenizer whose tokens are the pieces of one reply."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self._pieces = pieces

    def decode(self, tokens: Sequence[int], **options: Any) -> str:
        return "".join(self._pieces[token] for token in tokens)


def from_server(made: Made, pieces: Sequence[str], with_logprobs: bool) -> Reply:
    """Return the reply like a streaming server."""
    reading = StreamedReply(VerdictWatch(), lambda text: None, KeyMask(None))
    for piece in pieces:
        alternatives: Any = ((piece, (("true", -0.5), ("false", -1.0))),) if with_logprobs else ()
        reading.add(Chunk(piece, tokens=1, alternatives=alternatives))
    if made.cut:
        reading.add(Chunk("", finish="length"))
    return reading.reply()


def from_model(made: Made, pieces: Sequence[str]) -> Reply:
    """Return the reply like a local model with a known prompt, which perhaps constrains it."""
    settings, ends = ReplySettings(watch_verdict=True), {len(pieces)}
    listener = ReplyListener(_Pieces(pieces), ends, ((), ()), settings, made.thinking, None, made.held)
    if not any(listener.take(number) for number in range(len(pieces))) and not made.cut:
        listener.take(len(pieces))
    return listener.reply()


def read_every_way(made: Made, rng: random.Random) -> dict[str, Reply]:
    """Return a reply as it is read whole, and as it arrives in random pieces."""
    longest, pieces, at = rng.choice((1, 4, 12, 200)), list[str](), 0
    while at < len(made.text):
        pieces.append(made.text[at : at + rng.randint(1, longest)])
        at += len(pieces[-1])
    return {
        "whole": Reply(text=made.text, finish="length" if made.cut else "end"),
        "server": from_server(made, pieces, False),
        "server, log-probabilities": from_server(made, pieces, True),
        "local": from_model(made, pieces),
    }


def mistakes(numbers: Iterable[int]) -> tuple[list[str], Counter[str], Counter[str]]:
    """Read the replies with these numbers in every way.

    Returns:
        Replies that are read as the opposite, or not read although they are plain. Then, by way, how many
        replies say nothing, and how many of these were read as a verdict nevertheless.
    """
    wrong, nothing, guessed = [], Counter[str](), Counter[str]()
    for number in numbers:
        made = make(number)
        for way, reply in read_every_way(made, random.Random(number)).items():
            try:
                said = read_verdict(reply.whole).success
            except AnswerError:
                said = None
            nothing[way] += made.kind in NOTHING
            guessed[way] += made.says is None and said is not None
            if made.says is not None and (said is (not made.says) or (said is None and made.must)):
                wrong.append(f"{number}, {way}, {made.kind}, read as {said}: {made.text!r}")
    return wrong, nothing, guessed
