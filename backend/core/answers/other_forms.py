"""Other forms of a plan, and everything that contradicts a verdict.

Plan formats of untrained agents are converted only if they are unambiguous. A list without its object, in
another object or written as a text is the plan. Steps under their numbers, or one by one in a tag or code
fence that is closed, are a list. Without that end, a cut-off reply would look complete. A key in capitals,
with spaces or under a common other name is that key. Steps without any numbers are counted. Anything
ambiguous stays unchanged and fails where it is checked. Two habits of published plans are understood too.
Numbers from 0 become numbers from 1, so that the first step is generated from text and no step 0 is shown. A
step whose text is only in `instruction`, with the prompt null, is a text-only step.

Everything in a reply that contradicts its verdict, outside of its thoughts, is found. An envelope may have
its own `success` ("the tool ran"), while the verdict is deeper: in an object, a list or a text that encodes
one as JSON or as a Python literal, possibly several times. Models also correct themselves under another
name. So every member of every object counts, except the refined prompt and texts that explain. The text
around an answer may contradict it, take it back or only suppose it. Before an answer agents reason in plain
text, so only words and short statements of a verdict count there. What follows an answer must agree with it:
after an accepted image every sentence must say so in words that are known here, or only end the reply. Words
never decide a verdict: if they do not agree with it, the agent is asked again.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..errors import AnswerError
from ..types import Verdict
from .objects import PLAN, STEP_NUMBER, FoundObject, continues, read_object
from .reply_text import TAG, TOKEN, ReplyPart, SplitReply, find_objects, split_reply

LIST_KEYS = (PLAN, "plan", "steps")
OTHER_NAMES = {
    "step": "step_number",
    "number": "step_number",
    "title": "step_name",
    "name": "step_name",
    "image_prompt": "prompt",
    "caption": "auxiliary_text",
    "text": "auxiliary_text",
}
STEP_KEYS = ("step_number", "step_name", "instruction", "prompt", "auxiliary_text")
LONE_LIST = re.compile(r"\s*(\[\s*\{.*\}\s*\])\s*", re.DOTALL)
STEP_CONTENT = {"prompt", "auxiliary_text"}
FENCED = re.compile(r"```[\w+-]{0,20}(.*?)```", re.DOTALL)
BETWEEN_STEPS = re.compile(r"[\s,\[\]]*")
CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
BETWEEN_WORDS = re.compile(r"[\W_]+")
MAX_STEP_KEYS = 40
VERDICT_KEYS = ("previous_step_success", "success")
REFINE_KEYS = ("refine_prompt", "refined_prompt")
DIFFER = "The reply contains several different verdicts."
MAX_ENCODED = 6
"""Maximum number of times that a text within a text is decoded."""
VERDICT_LIKE = re.compile(
    r"succe|verdict|pass|accept|approv|result|outcome|status|judg|decision|conclu|overall|final|correct|match|follow|"
    r"erfolg|bestanden|ergebnis|urteil|exito|resultad|esito|[^\x00-\x7f]"
)
"""Names of a verdict. A name in another language may be one."""
VERDICT_ITSELF = re.compile(r"succe(?:ss|ssful|ssfully|ed|eds|eded)$")
FAILURE_LIKE = re.compile(
    r"fail|unsucce|(?:^|_)(?:no|not|non)_.*succe|issue|problem|missing|error|artifact|mistake|wrong|incorrect|reject|^needs?_"
)
"""Names of the opposite of a verdict."""
REFINED_LIKE = re.compile(r"refined?_?prompt")
NAMED = re.compile(f"{VERDICT_LIKE.pattern}|{FAILURE_LIKE.pattern}|{REFINED_LIKE.pattern}")
EXPLAINS = re.compile(
    r"reason|note|expla|comment|thought|analy|descri|feedback|detail|critique|observ|suggest|prompt$"
)
"""Names of texts that explain the verdict."""
ENCODED = re.compile(r"\s*[{\[<`\"']")
FAILED = (
    r"fail\w*|reject\w*|unsucce\w*|false|refused?|declined?|denied|disapprov\w*|unaccept\w*|unsatisf\w*|invalid",
    r"insufficient|inadequate|fehlgeschlagen|durchgefallen|gescheitert|misslungen|abgelehnt|falsch|échec|échoué\w*",
    r"fracas\w*|fallo|fallid\w*|fallit\w*|bocciat\w*|respint\w*|reprovad\w*|falhou|mislukt|afgekeurd|niepowodzenie",
    r"başarısız|gagal|провал\w*|отклон\w*|неудач\w*",
)
FAILED_SIGNS = "失败|失敗|不合格|未通过|不通过|否决|拒绝|불합격|실패|거부|❌|✗|✘|✕|👎|🚫|⛔"
DENIALS = (
    r"not?|\w+n['’]t|cannot|never|none|nor|neither|nothing|nope|miss\w*|lack\w*|without|wrong\w*|incorrect\w*",
    r"inaccura\w*|but|however|(?:al)?though|except\w*|unfortunately|mistake\w*|error\w*|bad\w*|poor\w*|partial\w*",
    r"almost|needs?|must|nicht|kein\w*|fehl\w*|aber|leider|nein|pas|non?|faux|fausse\w*|manqu\w*|mais|aucun\w*|fals[oa]",
    r"falt\w*|pero|sin|manca\w*|sbagliat\w*|não|mas|errad\w*|niet|geen|fout|inte|ikke|nie|brak\w*|değil|hayır|yanlış",
    r"yok|tidak|bukan|не\w*|нет|но|ошиб\w*",
)
DENIAL_SIGNS = "不|没|沒|未|無|无|非|错|误|誤|败|敗|但|否|缺|假|ない|なし|いいえ|違|偽|아니|없|않|못|거짓|틀"
TRUE_SIGNS = "成功|合格|通过|正确|符合|一致|是|성공|합격|✅|✓|✔|👍"
SIGN_OFF = re.compile(
    r"(?:done|great(?: work| job)?|well done|that(?: i|['’])s (?:all|it)|(?:i )?hope (?:this|that|it) helps|"
    r"have a (?:nice|good|great) day\b.*|thank(?:s| you)\b.*)",
    re.IGNORECASE | re.DOTALL,
)
STATED = re.compile(r"(?:succe\w*|verdict)[^\w,;{}]{1,40}(true|false)(?!\w)", re.IGNORECASE)
"""A verdict under its name, also where an object is not written strictly."""
NOTHING = ("", "none", "null", "n/a", "nothing")
"""Words for an empty value. They do not state a verdict."""
MAX_SHORT = 3
"""Maximum number of words of a text that states only a verdict."""
PIECE = re.compile(r"[\"'“][\w .-]{1,40}\\{0,99}[\"'”]\s{0,30}[:：]")
"""A name in quotes before a colon: a piece of an object without braces."""
MARKS = re.compile(rf"{TAG.pattern}|{TOKEN}|<[/|｜]?[\w:▁]{{0,30}}[|｜]?\Z|```\w*", re.IGNORECASE)
"""Tags, also of special tokens and cut off, and fences."""
SENTENCE = re.compile(r"[^.!。！\n;；]+")
SEPARATOR = re.compile(r"[:：=|→⇒]|->")
FRAME = " \n\t*_`#()[]{}\"“”'~|>-"
CONTRADICTS, TAKEN_BACK = "The reply contradicts its verdict.", "The reply takes its verdict back."
NOT_AGREED = "The reply has text after its answer that may take it back."
SUPPOSES = "The verdict is only supposed or denied."


def normal_key(key: object) -> str:
    """Return a key for comparison: lower-case words with underscores, also for `previousStepSuccess`."""
    return BETWEEN_WORDS.sub("_", CAPITAL.sub("_", str(key))).strip("_").lower()


def shaped_plans(places: tuple[ReplyPart, ...]) -> list[FoundObject]:
    """Return the plans in parts of a reply that do not have an object with `execution_plan`.

    These are plans in another object, under another name, or as a list.

    Raises:
        AnswerError: An object cannot be parsed.
    """
    found: list[FoundObject] = []
    for place in places:
        listed = [one for container in _containers(place) for one in _listed_in(container)]
        found += listed or [
            replace(one, value={PLAN: value})
            for one in find_objects(place)
            if one.alone
            for value in _within(one.value)
        ]
    return found


def _containers(place: ReplyPart) -> Sequence[ReplyPart]:
    """Return the code fences of a part, or the part itself if it has none."""
    if place.content.count("```") % 2:
        raise AnswerError("A code fence is not closed.", place.content[-200:])
    return [
        replace(place, begin=place.begin + fenced.start(1), end=place.begin + fenced.end(1), closed=True)
        for fenced in FENCED.finditer(place.content)
    ] or [place]


def _listed_in(container: ReplyPart) -> Iterator[FoundObject]:
    """Yield the plan in a container that contains only a list of steps, or steps one by one."""
    if listed := LONE_LIST.fullmatch(container.content):
        yield _as_plan(listed[1])
        return
    steps = list(find_objects(container)) if container.closed else []
    ends = [container.begin, *(one.end for one in steps)]
    starts = [*(one.start for one in steps), container.end]
    between = [container.text[end:start] for end, start in zip(ends, starts, strict=True)]
    values = [one.value for one in steps]
    if (
        # A single step is refused, since others may be missing.
        len(values) > 1
        and all(STEP_CONTENT & value.keys() for value in values)
        and all(map(BETWEEN_STEPS.fullmatch, between))
        and all(continues([before], [after]) for before, after in itertools.pairwise(values))
    ):
        yield replace(steps[-1], value={PLAN: values}, uncertain=any(one.uncertain for one in steps))


def _as_plan(text: str) -> FoundObject:
    source = f'{{"{PLAN}": {text}}}'
    found = read_object(source, 0, len(source))
    if found.cut_off or found.uncertain:
        raise AnswerError("The list of steps is damaged.", text)
    return found


def _within(value: dict[str, Any]) -> Iterator[Any]:
    """Yield the plan in an object without `execution_plan`: under another name, or one level below."""
    names = {normal_key(key): one for key, one in value.items()}
    for key in LIST_KEYS[1:]:
        if isinstance(names.get(key), (list, dict)):
            yield names[key]
            return
    for one in value.values():
        below = {normal_key(key): item for key, item in one.items()} if isinstance(one, dict) else {}
        if PLAN in below:
            yield below[PLAN]


def steps_in(value: Any) -> Any:
    """Return the steps as a list of objects with the requested keys, if that is meant; else the value."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = _as_plan(value).value.get(PLAN)
    if isinstance(value, dict):
        value = _listed(value)
    if not isinstance(value, list):
        return value
    steps = [_named(step) if isinstance(step, dict) else step for step in value]
    if steps and all(isinstance(step, dict) and "step_number" not in step for step in steps):
        return [{"step_number": place, **step} for place, step in enumerate(steps, 1)]
    return steps


def _listed(value: dict[str, Any]) -> Any:
    """Convert an object that contains the list, has a step under each number, or is a step."""
    names = {normal_key(key): one for key, one in value.items()}
    for key in LIST_KEYS:
        if isinstance(names.get(key), list):
            return names[key]
    numbers = [STEP_NUMBER.fullmatch(str(key)) for key in value]
    if value and all(numbers) and all(isinstance(one, dict) for one in value.values()):
        return [
            {"step_number": number[1] if number else None, **step}
            for number, step in zip(numbers, value.values(), strict=True)
        ]
    return [value] if "prompt" in names or "auxiliary_text" in names else value


def _named(step: dict[str, Any]) -> dict[str, Any]:
    """Return a step with the requested keys."""
    named, others = dict(step), False
    if len(step) > MAX_STEP_KEYS:
        return named
    for key, value in step.items():
        name = normal_key(key)
        name = name if name in STEP_KEYS else OTHER_NAMES.get(name, name)
        if name in STEP_KEYS and named.setdefault(name, value) != value and name != "step_number":
            raise AnswerError(f"A step has two different values for {name!r}.", f"{named[name]!r}, {value!r}")
        others |= name not in STEP_KEYS
    if "prompt" not in named and (others or named.get("instruction")):
        raise AnswerError(
            "A step does not have a prompt.", repr(step), "Write the prompt, or null for a text-only step."
        )
    number = named.get("step_number")
    if isinstance(number, str) and (found := STEP_NUMBER.fullmatch(number)):
        named["step_number"] = found[1]
    named["auxiliary_text"] = _key_words(named.get("auxiliary_text"))
    return named


def _key_words(value: Any) -> Any:
    """Return a caption: several texts as lines, a number as text, false as `None`."""
    if value is False:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return "\n".join(value) or None
    return value


def shift_of(numbers: Iterable[int]) -> int:
    """Return what to add to the step numbers of a plan: 1 if they count from 0, else 0."""
    return 1 if min(numbers, default=1) == 0 else 0


def words_of(
    instruction: str | None, prompt: str | None, auxiliary_text: str | None
) -> tuple[str | None, str | None]:
    """Return instruction and auxiliary text of a step; a text-only step (prompt null) has only the latter."""
    if instruction and prompt is None and not auxiliary_text:
        return None, instruction
    return instruction, auxiliary_text


def _words(*words: str, signs: str) -> re.Pattern[str]:
    """Return a pattern of whole words, and of signs anywhere, in any case."""
    return re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)|{signs}", re.IGNORECASE)


FALSE_WORD = _words(*FAILED, signs=FAILED_SIGNS)
"""A word of a false verdict."""

DENIAL = _words(*FAILED, *DENIALS, signs=f"{FAILED_SIGNS}|{DENIAL_SIGNS}")
"""A word that denies something, or restricts it."""

TAKE_BACK = _words(
    r"wait|actually|correction|sorry|oops|scratch|misread|on reflection|reconsider\w*|revis\w*",
    r"chang\w* my|never ?mind|instead|moment|korrektur|en fait|en realidad|espera|aspetta|na verdade|wacht",
    r"jednak|aslında|на самом деле",
    signs="更正|等等|いや|訂正|잠깐",
)
SUPPOSED = _words(
    r"if|were|had|would|could|should|might|suppose\w*|example|instance|e\.g|template|schema|form",
    r"(?<!in the )(?<!requested )(?<!required )(?<!json )format",
    signs="[?？]",
)
TRUE_WORD = _words(
    r"true|pass(?:ed|es)?|succe\w+|yes|accept(?:ed|s)?|approved?|correct|ok(?:ay)?|good|ja|oui|sí|richtig|bestanden",
    r"aprobad[oa]|да",
    signs=TRUE_SIGNS,
)
"""A word of a true verdict."""
AGREES = _words(
    r"true|pass(?:ed|es)|succe\w+|yes|accepted|approved|correctly",
    r"(?:is|are|looks?) (?:correct|good|right|fine|ok(?:ay)?)",
    r"as (?:asked|requested|required|expected|instructed|described|intended)|matche[sd]|met",
    r"fulfil\w*|follow(?:s|ed)|passt|entspricht|correspond\w*|conforme|cumple\w*|perfect\w*",
    signs=TRUE_SIGNS,
)
"""What a sentence after a true verdict says if it agrees."""
STATED_TRUE = re.compile(
    r"(?:succe\w*|verdict|result|answer|overall|status|correction|decision|conclusion)\W{1,20}"
    rf"(?:(?:is|be|to|was|should be)\W{{1,9}})?(?:{TRUE_WORD.pattern})"
    r"(?!\W{1,4}(?:or\W|/|\|)\W{0,3}false)",
    re.IGNORECASE,
)
"""A true verdict in a text, except in an answer format with both words."""


def is_short(text: str) -> bool:
    """Return whether a text may say only a verdict."""
    return len(text) <= 40 and len(text.split()) <= MAX_SHORT


def said_by(value: object) -> bool | None:
    """Return the verdict that a short text, or a truth value, says; `None` for anything else."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or not is_short(value) or value.strip().lower() in NOTHING:
        return None
    if DENIAL.search(value):
        return False
    return True if TRUE_WORD.search(value) else None


def bool_from_word(value: object) -> object:
    """Return True or False for the words `true` and `false` in any case, and any other value unchanged."""
    word = value.strip().lower() if isinstance(value, str) else ""
    return {"true": True, "false": False}.get(word, value)


def check_other_verdicts(
    verdict: Verdict, answers: Iterable[FoundObject], others: Iterable[FoundObject]
) -> None:
    """Check that nothing in these objects of a reply contradicts its verdict.

    Args:
        verdict: The verdict that was parsed.
        answers: The objects that it was parsed from.
        others: The other objects of the reply. One with a refined prompt and without a verdict looks like an
            answer that cannot be parsed.

    Raises:
        AnswerError: Something contradicts the verdict.
    """
    for one, is_answer in [*((one, True) for one in answers), *((one, False) for one in others)]:
        stated = list(_statements(one.value))
        for name, value in stated:
            if _differs(verdict, name, value):
                raise AnswerError(DIFFER, f"{name}: {value!r} in {one.raw}")
        # A refined prompt belongs to a verdict: that of the answer, or one under a name that is not known.
        asks = any(REFINED_LIKE.search(name) and _refined_text(value) for name, value in stated)
        verdicts = sum(VERDICT_ITSELF.search(name) is not None for name, _ in stated)
        if asks and verdicts < (2 if is_answer and _is_envelope_like(one) else is_answer):
            raise AnswerError(DIFFER, one.raw)


def _is_envelope_like(found: FoundObject) -> bool:
    """Return whether an answer has only `success`, so that what is in it may contain the verdict."""
    names = {normal_key(key) for key in found.value}
    return VERDICT_KEYS[0] not in names and not any(REFINED_LIKE.search(name) for name in names)


def _differs(verdict: Verdict, name: str, value: Any) -> bool:
    """Return whether a value under this normalized name differs from the verdict, or might differ."""
    if REFINED_LIKE.search(name):
        refined = _refined_text(value)
        return not verdict.success and bool(refined) and refined != verdict.refined_prompt
    value = bool_from_word(value)
    said = said_by(value)
    if FAILURE_LIKE.search(name):
        return (
            said is verdict.success
            if isinstance(value, bool)
            else verdict.success is True and said is not None
        )
    if VERDICT_ITSELF.search(name):
        return said is not verdict.success
    if EXPLAINS.search(name) and isinstance(value, str):
        return False
    is_named = VERDICT_LIKE.search(name) is not None
    if is_named and value in (0, 1):
        said = bool(value)
    if not verdict.success:
        return is_named and said is True
    return said is False or (isinstance(value, str) and FALSE_WORD.search(value) is not None)


def _refined_text(value: Any) -> str:
    return value if isinstance(value, str) and value.strip().lower() not in ("", "none", "null") else ""


def _statements(value: Any, name: str = "", decoded: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield all members of a value that are neither lists nor objects, by normalized name."""
    if isinstance(value, dict):
        for key, item in value.items():
            own = normal_key(key)
            # What is within an explanation explains, unless it is called a verdict.
            explains = EXPLAINS.search(name) and not NAMED.search(own)
            yield from _statements(item, name if explains else own, decoded)
    elif isinstance(value, list):
        for item in value:
            yield from _statements(item, name, decoded)
    else:
        yield name, value
    if not isinstance(value, str) or REFINED_LIKE.search(name):
        return
    if ENCODED.match(value):
        if decoded == MAX_ENCODED:
            raise AnswerError(f"The answer contains texts encoded more than {MAX_ENCODED} times.", value)
        for item in _decoded(value):
            yield from _statements(item, "", decoded + 1)
    if not EXPLAINS.search(name):
        yield from (("success", stated.group(1)) for stated in STATED.finditer(value))


def _decoded(text: str) -> list[Any]:
    """Return what a text encodes as a whole: an object, a list, a text, or a reply with tags or fences.

    The list is empty for any other text.
    """
    body = text.strip()
    try:
        if body[0] in "<`":
            return [one.value for place in split_reply(body).places for one in find_objects(place)]
        source = f'{{"text": {body}}}'
        found = read_object(source, 0, len(source))
    except AnswerError:
        return []
    return [] if found.open_depth or found.end < len(source) else list(found.value.values())


def check_the_rest(
    text: str, verdict: Verdict, reply: SplitReply, found: list[FoundObject], others: list[FoundObject]
) -> None:
    """Check that the rest of a reply does not contradict its verdict or contain pieces of an object.

    Raises:
        AnswerError: The rest contains such a text.
    """
    for one in found:
        if not one.strict and any(_is(word, not verdict.success) for word in STATED.findall(one.raw)):
            raise AnswerError(CONTRADICTS, one.raw)
    spans = [(one.begin, one.end) for one in reply.thoughts] + [
        (one.start, one.end) for one in (*found, *others)
    ]
    starts, last = {one.start for one in found}, max(one.end for one in found)
    for begin, end in _gaps(spans, len(text)):
        part = text[begin:end]
        if piece := PIECE.search(part):
            raise AnswerError(
                "The reply contains a piece of an object next to the verdict.", _around(part, piece)
            )
        words = MARKS.sub(" ", part)
        stated = (FALSE_WORD if verdict.success else STATED_TRUE).search(words)
        if stated is not None:
            raise AnswerError(CONTRADICTS, _around(words, stated))
        if begin >= last:
            _check_after(words, verdict)
        elif verdict.success and (denied := next(filter(_denies, SENTENCE.findall(words)), None)):
            raise AnswerError(CONTRADICTS, denied)
        if end in starts:
            _check_introduction(words, verdict)


def _check_after(words: str, verdict: Verdict) -> None:
    """Check what follows an answer."""
    is_true = verdict.success is True
    if TAKE_BACK.search(words) or (is_true and (DENIAL.search(words) or SUPPOSED.search(words))):
        raise AnswerError(TAKEN_BACK, words.strip())
    if is_true and any(map(str.isalnum, words)) and not _is_whole(words):
        raise AnswerError("The reply is cut off after its verdict.", words.strip())
    for sentence in SENTENCE.findall(words):
        label, value = _statement(sentence)
        if is_true:
            agrees = AGREES.search(sentence) or SIGN_OFF.fullmatch(value) or not any(map(str.isalnum, value))
        else:
            agrees = not is_short(value) or said_by(value) is not True or EXPLAINS.search(label.lower())
        if not agrees:
            raise AnswerError(NOT_AGREED, sentence.strip())


def _check_introduction(words: str, verdict: Verdict) -> None:
    """Check the unfinished sentence that an answer is in, if there is one."""
    line = words.strip().rpartition("\n")[2]
    if line and not _is_whole(line) and (SUPPOSED.search(line) or (verdict.success and DENIAL.search(line))):
        raise AnswerError(SUPPOSES, line)


def _denies(sentence: str) -> bool:
    """Return whether a sentence is a short denial, or a label with one."""
    _, value = _statement(sentence)
    return is_short(value) and DENIAL.search(value) is not None


def _statement(sentence: str) -> tuple[str, str]:
    """Return the label and the value of `label: value`. The label is empty if there is none."""
    separators = list(SEPARATOR.finditer(sentence.strip(FRAME)))
    body = sentence.strip(FRAME)
    if not separators:
        return "", body
    return body[: separators[-1].start()].strip(FRAME) or "?", body[separators[-1].end() :].strip(FRAME)


def _is_whole(text: str) -> bool:
    """Return whether a text ends with the end of a sentence, or with a symbol."""
    last = text.rstrip(FRAME)[-1:]
    return last in tuple(".!。！…") or (last != "" and unicodedata.category(last) == "So")


def _is(word: str, value: bool) -> bool:
    return word.lower() == str(value).lower()


def _gaps(spans: list[tuple[int, int]], length: int) -> Iterator[tuple[int, int]]:
    """Yield the places outside of the spans."""
    position = 0
    for begin, end in [*sorted(spans), (length, length)]:
        if begin > position:
            yield position, begin
        position = max(position, end)


def _around(text: str, found: re.Match[str]) -> str:
    return text[max(0, found.start() - 60) : found.end() + 60]
