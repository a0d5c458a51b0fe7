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
name. So every member of every object counts, except the refined prompt and texts that explain. Next to a true
verdict a member must be empty, agree, or have a name that is about neither the verdict nor the image: faults
can be named in any language. After an accepted image every sentence must agree too, in words that are known
here, or only end the reply. Only a true verdict contradicts a false one. Before an answer agents reason in
plain text, so only words and short statements of a verdict count there. Words never decide a verdict: if they
do not agree with it, the agent is asked again.
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
    r"fail|unsucce|(?:^|_)(?:no|not|non)_.*succe|reject|^needs?_|_needed$|requires?_|refine|regenerat|retry|redo"
)
"""Names of the opposite of a verdict."""
FAULT_LIKE = re.compile(
    rf"{FAILURE_LIKE.pattern}|issue|problem|missing|error|artifact|mistake|wrong|incorrect|defect|flaw|differen|"
    r"discrep|deviat|inconsist|mismatch|violat|blur|distort|extra_|unexpected|unwanted|hallucinat|partial|incomplete|unmet"
)
"""Names of faults of an image. A rejected image may be free of one of them."""
RATING_LIKE = re.compile(rf"{VERDICT_LIKE.pattern}|scor|rating|grade|quality|percent|similar|align")
NEUTRAL = re.compile(
    r"confiden|instruction|(?:^|_)(?:certainty|tags?|model|name|id|version|lang|language|time|timestamp|date|step|task|tool|"
    r"type|role|number|item|aspect|criterion|objects?|elements?|present|detected|made)$"
)
"""Names of texts that are about neither the verdict nor the image."""
REFINED_LIKE = re.compile(r"refined?_?prompt")
NAMED = re.compile(f"{VERDICT_LIKE.pattern}|{FAULT_LIKE.pattern}|{REFINED_LIKE.pattern}")
ADVISES = re.compile(r"comment|feedback|detail|critique|observ|suggest")
EXPLAINS = re.compile(
    rf"reason|note|expla|thought|analy|descri|rational|justif|evidence|raison|raz[oó]n|begr[uü]nd|理由|原因|"
    rf"{ADVISES.pattern}|(?<!matches_)(?<!follows_)prompt$"
)
"""Names of texts that explain the verdict."""
ENCODED = re.compile(r"\s*[{\[<`\"']")
FAILED = (
    r"fail\w*|reject\w*|unsucce\w*|false|refused?|declined?|denied|disapprov\w*|unaccept\w*|unsatisf\w*|invalid",
    r"insufficient|inadequate|fehlgeschlagen|durchgefallen|gescheitert|misslungen|abgelehnt|falsch|échec|échoué\w*",
    r"fracas\w*|fall(?:o|ó|ad[oa]|id\w*)|fallit\w*|bocciat\w*|respint\w*|reprovad\w*|falhou|mislukt|afgekeurd|niepowodzenie",
    r"başarısız|gagal|провал\w*|отклон\w*|неудач\w*",
)
FAILED_SIGNS = "失败|失敗|不合格|未通过|不通过|否决|拒绝|불합격|실패|거부|❌|✗|✘|✕|👎|🚫|⛔"
DENIALS = (
    r"not?|\w+n['’]t|cannot|never|none|nor|neither|nothing|nope|miss\w*|lack\w*|without|wrong\w*|incorrect\w*",
    r"inaccura\w*|but|however|(?:al)?though|except\w*|unfortunately|mistake\w*|error\w*|bad\w*|poor\w*|partial\w*",
    r"almost|needs?|must|nicht|kein\w*|nein|aber|pas|non?|mais|pero|não|niet|не|нет|но",
)
DENIAL_SIGNS = "不|没|沒|未|無|无|非|错|误|誤|败|敗|但|否|缺|假|ない|なし|いいえ|違|偽|아니|없|않|못|거짓|틀"
TRUE_SIGNS = "成功|合格|通过|正确|符合|一致|성공|합격|✅|✓|✔|👍"
SIGN_OFF = re.compile(
    r"(?:done|great(?: work| job)?|well done|that(?: i|['’])s (?:all|it)|(?:i )?hope (?:this|that|it) helps|"
    r"have a (?:nice|good|great) day\b.*|thank(?:s| you)\b.*)",
    re.IGNORECASE | re.DOTALL,
)
STATED = re.compile(r"(?:succe\w*|verdict)[^\w,;{}]{1,40}(true|false)(?!\w)", re.IGNORECASE)
"""A verdict under its name, also where an object is not written strictly."""
NOTHING = re.compile(
    r"\W{0,9}(?:(?:null|n/?a|(?:none|nothing)"
    r"(?: (?:\w+ )?(?:found|detected|visible|missing|wrong|needed|to \w+))?"
    r"|no (?:\w+ )?(?:issues?|problems?|mistakes?|errors?|faults?|artifacts?|defects?|changes?|differences?)"
    r"(?: (?:\w+ )?(?:found|detected|visible|needed))?|keine?|aucune?|ningun[oa]|nessun[oa]|无|無|なし|없음)"
    r"(?:\W{1,9}(?:all|every)[\w ]{1,80})?)?\W{0,9}",
    re.IGNORECASE,
)
"""An empty value. It does not state a verdict."""
RATED = re.compile(r"\s*(\d{1,3}(?:\.\d{1,9})?)\s*(?:(?:/|out of)\s*([1-9]\d{0,2})|%)\s*")
"""A number of a scale."""
HALF = 0.5
MAX_SHORT = 3
"""Maximum number of words of a text that states only a verdict."""
MARKS = re.compile(rf"{TAG.pattern}|{TOKEN}|<[/|｜]?[\w:▁]{{0,30}}[|｜]?\Z|```\w*", re.IGNORECASE)
"""Tags, also of special tokens and cut off, and fences."""
SENTENCE = re.compile(r"[^.!。！\n;；]+")
SEPARATOR = re.compile(r"[:：=|→⇒]|->")
FRAME = " \n\t*_`#()[]{}\"“”'~|>-"
CONTRADICTS = "The reply contradicts its verdict."
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
    r"true|pass(?:ed|es)|succe\w+|yes|accepted|approved|correctly|completed?|proceed",
    r"(?:is|are|looks?) (?:correct|good|right|fine|ok(?:ay)?)",
    r"as (?:asked|requested|required|expected|instructed|described|intended)|matche[sd]|met",
    r"fulfil\w*|follow(?:s|ed)|passt|entspricht|perfect(?:ly)?",
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


def said_by(value: object) -> bool | None:
    """Return the verdict that a short text, or a truth value, says; `None` for anything else."""
    if isinstance(value, bool):
        return value
    is_short = isinstance(value, str) and len(value) <= 40 and len(value.split()) <= MAX_SHORT
    if not isinstance(value, str) or not is_short or NOTHING.fullmatch(value):
        return None
    return False if DENIAL.search(value) else True if TRUE_WORD.search(value) else None


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
        if verdict.success and one.open_depth and not is_answer:
            raise AnswerError(DIFFER, one.raw)
        stated = list(_statements(one.value))
        for name, value in stated:
            if _differs(verdict, name, value):
                problem = (
                    f"The image is accepted, but {name!r} may say otherwise." if verdict.success else DIFFER
                )
                raise AnswerError(problem, f"{name}: {value!r} in {one.raw}")
        # A refined prompt belongs to a verdict: that of the answer, or one under a name that is not known.
        asks = any(REFINED_LIKE.search(name) and _refined_text(value) for name, value in stated)
        own = is_answer and any(REFINED_LIKE.search(normal_key(key)) for key in one.value)
        verdicts = sum(VERDICT_ITSELF.search(name) is not None for name, _ in stated)
        if asks and not own and verdicts <= is_answer:
            raise AnswerError(DIFFER, one.raw)


def _differs(verdict: Verdict, name: str, value: Any) -> bool:
    """Return whether a value under this normalized name differs from the verdict, or might differ."""
    if REFINED_LIKE.search(name):
        refined = _refined_text(value)
        return not verdict.success and bool(refined) and refined != verdict.refined_prompt
    value = bool_from_word(value)
    if verdict.success:
        return not _fits_true(name, value)
    if FAILURE_LIKE.search(name):
        return value is False
    said = bool(value) if value in (0, 1) else said_by(value)
    return said is True and VERDICT_LIKE.search(name) is not None and not EXPLAINS.search(name)


def _fits_true(name: str, value: Any) -> bool:
    """Return whether a member next to a true verdict is empty, agrees, or is about something else."""
    is_fault = FAULT_LIKE.search(name) is not None
    explains = EXPLAINS.search(name) or (NEUTRAL.search(name) and said_by(value) is not False)
    is_rating = RATING_LIKE.search(name) is not None
    if isinstance(value, str):
        rated = RATED.fullmatch(value)
        if rated is None:
            fits = value.strip(FRAME).lower() == "no" if is_fault else explains or _agrees(value)
            denies = ADVISES.search(name) and DENIAL.search(value)
            return NOTHING.fullmatch(value) is not None or bool(fits and not denies)
        value, is_rating = float(rated[1]) / float(rated[2] or 100), True
    if value is None or isinstance(value, bool):
        return value is not is_fault
    if is_fault:
        return value < HALF
    if value in (0, 1) and VERDICT_LIKE.search(name):
        return value == 1
    return bool(explains) or not is_rating or _is_high(value)


def _is_high(rating: float) -> bool:
    """Return whether a rating is in the upper half of its scale: 0 to 1 (fractions), 10 or 100."""
    if 0 < rating <= 1 and isinstance(rating, float):
        return rating >= HALF
    return rating >= HALF * (10 if rating <= 10 else 100)


def _refined_text(value: Any) -> str:
    return value if isinstance(value, str) and value.strip().lower() not in ("", "none", "null") else ""


def _statements(value: Any, name: str = "", decoded: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield all members of a value that are neither lists nor objects, by normalized name."""
    if isinstance(value, dict):
        for key, item in value.items():
            own = normal_key(key)
            if FAULT_LIKE.search(name):
                own = f"{name}_{own}"
            # What is within an explanation explains, unless it is called a verdict or a fault.
            elif EXPLAINS.search(name) and not NAMED.search(own):
                own = name
            yield from _statements(item, own, decoded)
    elif isinstance(value, list):
        for item in value:
            yield from _statements(item, name, decoded)
    elif not isinstance(value, str) or REFINED_LIKE.search(name):
        yield name, value
    else:
        inner = _decoded(value) if ENCODED.match(value) else []
        if inner and decoded == MAX_ENCODED:
            raise AnswerError(f"The answer contains texts encoded more than {MAX_ENCODED} times.", value)
        for item in inner:
            yield from _statements(item, name if isinstance(item, str) else "", decoded + 1)
        if not inner:
            yield name, value


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
    """Check that the rest of a reply does not contradict its verdict.

    Raises:
        AnswerError: The rest contains such a text.
    """
    for one in found:
        if not one.strict and str(not verdict.success).lower() in map(str.lower, STATED.findall(one.raw)):
            raise AnswerError(CONTRADICTS, one.raw)
    spans = [(one.begin, one.end) for one in reply.thoughts]
    spans += [(one.start, one.end) for one in (*found, *others)]
    starts, last = {one.start for one in found}, max(one.end for one in found)
    for begin, end in _gaps(spans, len(text)):
        words = MARKS.sub(" ", text[begin:end])
        if stated := (FALSE_WORD if verdict.success else STATED_TRUE).search(words):
            raise AnswerError(CONTRADICTS, words[max(0, stated.start() - 60) : stated.end() + 60])
        if begin >= last:
            has_end = not any(map(str.isalnum, words)) or _is_whole(words)
            if not (has_end and _agrees(words)) if verdict.success else said_by(words):
                raise AnswerError(NOT_AGREED, words.strip())
        elif verdict.success and any(said_by(_value(one)) is False for one in SENTENCE.findall(words)):
            raise AnswerError(CONTRADICTS, words.strip())
        # The answer may be in a sentence that is not finished.
        line = words.strip().rpartition("\n")[2]
        denied = SUPPOSED.search(line) or (verdict.success and DENIAL.search(line))
        if end in starts and line and denied and not _is_whole(line):
            raise AnswerError(SUPPOSES, line)


def _agrees(text: str) -> bool:
    """Return whether every sentence of a text agrees with a true verdict, or only ends the reply."""
    if DENIAL.search(text) or SUPPOSED.search(text):
        return False
    return said_by(text) is True or all(
        AGREES.search(sentence) or SIGN_OFF.fullmatch(_value(sentence)) or not any(map(str.isalnum, sentence))
        for sentence in SENTENCE.findall(text)
    )


def _value(sentence: str) -> str:
    """Return the value of `label: value`, or the whole sentence."""
    return SEPARATOR.split(sentence.strip(FRAME))[-1].strip(FRAME)


def _is_whole(text: str) -> bool:
    """Return whether a text ends with the end of a sentence, or with a symbol."""
    last = text.rstrip(FRAME)[-1:]
    return last in tuple(".!。！…") or (last != "" and unicodedata.category(last) == "So")


def _gaps(spans: list[tuple[int, int]], length: int) -> Iterator[tuple[int, int]]:
    """Yield the places outside of the spans."""
    position = 0
    for begin, end in [*sorted(spans), (length, length)]:
        if begin > position:
            yield position, begin
        position = max(position, end)
