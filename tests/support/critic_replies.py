"""Critic replies made from a known verdict, as many kinds of models and failures write them.

`KINDS` is the table of kinds. The meaning of a reply never comes from the tested reader. Replies of `MUST` kinds
have a definite verdict and must be read. The others may be refused, and never be read as the opposite. Replies that
say `None` say nothing definite, or two things.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

AT = "\x01"
"""Marks the end of the verdict's word while a reply is built, and is not part of the reply."""
SAID = {True: ("true", "True"), False: ("false", "False")}
KEYS = (
    "previousStepSuccess",
    "Previous Step Success",
    "previous-step-success",
    "PREVIOUS_STEP_SUCCESS",
    "success",
    "Success",
)
REFINED = ("refine_prompt", "refined_prompt", "refinePrompt", "Refine Prompt")
PAYLOADS = ("data", "output", "result", "content", "arguments", "response", "tool_result", "evaluation")
PROMPTS = (
    "make the boat blue",
    "a calm bay at dawn, one red boat",
    "the cat's hat, in red",
    'a sign that says "open"',
    "a / b, 3 < 4",
    "two\nlines",
    "wait for it ...",
    "a “blue” boat",
    "一只红色的船",
    "ein Hut, der nicht rot ist",
)
THOUGHTS = {
    True: (
        "It is red as asked.",
        "All of it is there.",
        "The hat was missing before, now it is there.",
        "船是红色的，符合要求。",
    ),
    False: (
        "The hat is missing.",
        "The boat is green, not red.",
        "So the step did not work.",
        "没有帽子，所以失败了。",
    ),
}
AGREES = {
    True: ("The boat is red as asked.", "The step was successful.", "Everything matches the prompt.", "**Verdict:** true.", "Done.",
           "That is all.", "Hope this helps!", "图像符合提示。", "Das Bild passt zum Prompt."),
    False: ("The hat is missing.", "The step failed, since the boat is green.", "**Verdict:** false.", "That is all.",
            "The boat does not match the prompt.", "没有帽子。", "Der Hut fehlt."),
}  # fmt: skip
TAKEN_BACK = {
    True: ("Final verdict: FAIL", "Wait, that is wrong: the hat is missing.", "Actually, the step failed.", "Correction: false.",
           "On reflection, this image should be rejected.", "I have to change my answer, it was not a success.", "Overall: unsuccessful.",
           "Scratch that, the prompt was ignored.", "However, the boat is still green, so it does not pass.", "Status: rejected",
           "Hmm, no. I would reject it.", "**Result:** ❌", "Final answer: No", "Verdict -> fail", "Never mind, it is not red.",
           "Sorry, I misread the image. The answer should be false.", "Score: 2/10", "The scarf was supposed to be red.", "EDIT: I overlooked the dog.",
           "I take that back.", "The image must be regenerated.", "Thumbs down.", "(not really)", "Result: 0", "<verdict>FAIL</verdict>", "[REJECTED]",
           "Verdict after checking twice: I'd send this one back.", "{\"verdict\": \"needs work\"}", "N/A"),
    False: ("Final verdict: PASS", "Actually, the step succeeded.", "Correction: true.", "Wait, I misread it: the step is a success.",
            "Final answer: Yes", "Overall: successful.", "**Result:** passed"),
}  # fmt: skip
TAKEN_BACK_IN = {
    "de": ("Endgültiges Urteil: nicht bestanden", "Moment, das stimmt nicht: der Hut fehlt.", "Doch falsch, der Schritt ist fehlgeschlagen."),
    "fr": ("Verdict final : échec", "En fait, le chapeau manque, donc c'est un échec.", "Correction : faux."),
    "es": ("Veredicto final: fallo", "En realidad, falta el sombrero.", "Corrección: falso."),
    "it": ("Verdetto finale: fallito", "Aspetta, manca il cappello, quindi non va bene."),
    "pt": ("Veredito final: reprovado", "Na verdade, falta o chapéu, então falhou."),
    "nl": ("Eindoordeel: mislukt", "Wacht, de hoed is er niet."),
    "pl": ("Ostateczny werdykt: niepowodzenie", "Jednak kapelusza nie ma."),
    "tr": ("Son karar: başarısız", "Aslında şapka yok, yani olmadı."),
    "ru": ("Итоговый вердикт: провал", "На самом деле шляпы нет, значит шаг не удался."),
    "zh": ("最终判断：不合格", "等等，帽子不见了，所以这一步失败了。", "更正：错误。"),
    "ja": ("最終判定：不合格", "いや、帽子がないので失敗です。", "訂正：偽"),
    "ko": ("최종 판정: 불합격", "잠깐, 모자가 없으니 실패입니다."),
    "ar": ("الحكم النهائي: فشل", "في الواقع القبعة مفقودة."),
    "hi": ("अंतिम निर्णय: असफल", "असल में टोपी गायब है।"),
    "vi": ("Kết luận cuối cùng: không đạt", "Thật ra chiếc mũ bị thiếu."),
}  # fmt: skip
ONE_WORD = {
    True: ("false", "False.", "FAIL", "No.", "no", "❌", "`false`", "**false**", "失败", "不合格。", "Rejected!", "nein", "faux", "0", "**FAIL**"),
    False: ("true", "True.", "PASS", "Yes.", "`true`", "Accepted", "**PASS**"),
}  # fmt: skip
OTHER_FIELDS: dict[str, tuple[Any, Any]] = {
    "passed": (True, False), "verdict": ("PASS", "FAIL"), "status": ("success", "failure"), "accepted": (True, False), "is_correct": (True, False),
    "result": ("pass", "fail"), "success": (True, False), "step_passed": ("yes", "no"), "final_verdict": ("accept", "reject"),
    "prompt_followed": (True, False), "failed": (False, True), "outcome": ("successful", "unsuccessful"), "overall": ("OK", "not OK"),
    "conclusion": ("The step succeeded.", "The step failed."), "decision": ("approved", "rejected"), "matches_prompt": ("true", "false"),
}  # fmt: skip
FOREIGN_FIELDS: dict[str, tuple[Any, Any]] = {
    "上一步成功": (True, False), "是否成功": (True, False), "结果": ("成功", "失败"), "前のステップの成功": (True, False), "判定": ("合格", "不合格"),
    "이전_단계_성공": (True, False), "vorheriger_schritt_erfolgreich": (True, False), "bestanden": ("ja", "nein"), "étape_réussie": (True, False),
    "resultado": ("aprobado", "fallo"), "шаг_успешен": (True, False), "paso_anterior_exitoso": (True, False), "Ergebnis": ("richtig", "falsch"),
}  # fmt: skip
FREE_FIELDS = (
    ("confidence", 0.3), ("note", "a poster: {'success': false} and more"), ("reasoning", "It failed at first. Now see: {\"success\": true}?"),
    ("step", 3), ("tags", ["boat", "hat"]), ("model", {"name": "critic", "version": 2}), ("image", "after.png"), ("explanation", "The boat, seen from afar."),
)  # fmt: skip
FAMILIES: dict[str, tuple[str, str, str]] = {
    "gpt-oss": ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>", "<|return|>"),
    "gpt-oss with role": ("<|start|>assistant<|channel|>analysis<|message|>", "<|end|>\n<|start|>assistant<|channel|>final<|message|>", "<|return|>"),
    "gpt-oss, commentary": ("<|channel|>commentary<|message|>", "<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>", ""),
    "Cohere": ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>", "<|END_RESPONSE|>"),
    "Gemma": ("<|channel>thought\n", "<channel|>", "<turn|>"),
    "Qwen": ("<think>\n", "\n</think>\n\n", "<|im_end|>"),
    "DeepSeek": ("<think>\n", "\n</think>\n\n", "<｜end▁of▁sentence｜>"),
    "Mistral": ("[THINK]", "[/THINK]", "</s>"),
    "Kimi": ("◁think▷", "◁/think▷", "<|im_end|>"),
    "Seed": ("<seed:think>\n", "\n</seed:think>\n", "<seed:eos>"),
    "Apertus": ("<|inner_prefix|>", "<|inner_suffix|>", "<|assistant_end|>"),
    "OpenThinker": ("<|begin_of_thought|>\n", "\n<|end_of_thought|>\n\n<|begin_of_solution|>\n", "\n<|end_of_solution|>"),
    "Solar": ("<|think|>", "<|end|><|begin|>assistant<|content|>", "<|end|>"),
    "gpt-oss without tokens": ("analysis", "assistantfinal", ""),
    "GLM": ("<think>", "</think>\n<|begin_of_box|>", "<|end_of_box|>"),
    "Granite": ("<think>", "</think>\n<response>\n", "\n</response>"),
    "EXAONE": ("<thought>\n", "\n</thought>\n\n", "[|endofturn|]"),
    "Reka": ("<reasoning>", "</reasoning>\n", "<sep>"),
    "LongCat": ("<longcat_think>\n", "\n</longcat_think>\n", "</longcat_s>"),
    "other tags": ("<analysis>", "</analysis>\n", ""),
    "tags with attributes": ("<chain-of-thought type='first'>\n", "\n</chain-of-thought>\n", ""),
    "tags in Chinese": ("<思考>\n", "\n</思考>\n", ""),
}  # fmt: skip
COMMENTS = (
    "<!-- {0} -->",
    "<!--\n{0}\n-->",
    "/* {0} */",
    "/*\n{0}\n*/",
    "// {0}",
    "# {0}",
    "{{# {0} #}}",
    "<!--\nexample:\n{0}\n",
    "> {0}",
    "<details>\n{0}\n</details>",
)
MENTIONS = (
    "I cannot answer {0}: the hat is missing.", "It is not {0} yet", "If the hat were there, I would answer:\n{0}", "Example of an answer:\n{0}",
    "The form of the answer is:\n```json\n{0}\n```", "I should not say\n{0}", "Had the boat been red, the answer would be\n{0}",
    "Is it {0}?", "For instance:\n{0}\nI will look at the images now.", "Should I write\n{0}\n?", "A good image would get\n{0}",
)  # fmt: skip
PROSE = (
    "The image is fine: success.", "success", "True", "The step was successful and the image is accepted.", "I'm sorry, I can't view images.", "",
    "Sure! I will judge the image.", "previous_step_success", "{}", "[]", "```json\n```", "<answer></answer>", "<answer>true</answer>", "成功", "{'a': true}",
)  # fmt: skip
UNSURE = (
    "true or false",
    "true/false",
    "true|false",
    '"true" or "false"',
    "<true/false>",
    '"maybe"',
    "0.7",
    "null",
    '"partially"',
    "[true, false]",
    '"mostly true"',
    '"true, except for the hat"',
)


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
        f"{quote}{'refine_prompt' if not key else rng.choice(REFINED)}{quote}: {literal(refined, quote)}",
    ]
    for name, value in (extra or {}).items():
        written = repr(value) if python else json.dumps(value, ensure_ascii=False)
        members.insert(rng.randint(0, len(members)), f"{literal(name, quote)}: {written}")
    return "{" + rng.choice((", ", ",\n  ")).join(members) + "}"


def formed(rng: random.Random, says: bool, body: str = "", thought: str | None = None) -> str:
    """Return a reply in one of the forms in which agents write their answers."""
    body = body or answer(rng, says)
    if rng.random() < 0.25:
        body = f"```{rng.choice(('json', 'python', ''))}\n{body}\n```"
    thought = rng.choice(THOUGHTS[says]) if thought is None else thought
    form = rng.choice(
        (
            "<think>{1}</think>\n\n<answer>{0}</answer>",
            "<think>{1}</think>\n\n<answer>\n{0}\n</answer>",
            "<answer>{0}</answer>",
            "{0}",
            "<think>{1}</think>\n{0}",
        )
    )
    return form.format(body, thought)


def draft(rng: random.Random, says: bool) -> str:
    """Return an answer that a thought considers."""
    body = answer(rng, says).replace(AT, "")
    return rng.choice(
        ("Is it {0} ?", "\n{0}\n", "```json\n{0}\n```\n", "Maybe:\n{0}\n", "<answer>{0}</answer>\n")
    ).format(body)


def plain(rng: random.Random, says: bool) -> Made:
    return Made(formed(rng, says), says)


def fenced(rng: random.Random, says: bool) -> Made:
    return Made(formed(rng, says, f"```{rng.choice(('json', 'python', ''))}\n{answer(rng, says)}\n```"), says)


def answer_first(rng: random.Random, says: bool) -> Made:
    return Made(f"<answer>{answer(rng, says)}</answer>\n<think>{rng.choice(THOUGHTS[says])}</think>", says)


def opened(rng: random.Random, says: bool) -> Made:
    thought = f"{rng.choice(THOUGHTS[not says])} {rng.choice(('', draft(rng, not says)))}{rng.choice(THOUGHTS[says])}"
    return Made(f"{thought}</think>\n\n<answer>{answer(rng, says)}</answer>", says, thinking=True)


def corrected(rng: random.Random, says: bool) -> Made:
    thought = f"{rng.choice(THOUGHTS[not says])} {draft(rng, not says)}No, wait. {rng.choice(THOUGHTS[says])}"
    return Made(f"<think>{thought}</think>\n<answer>{answer(rng, says)}</answer>", says)


def spelled(rng: random.Random, says: bool) -> Made:
    body = answer(rng, says, key=rng.choice(KEYS))
    if rng.random() < 0.3:
        body = rng.choice(
            (body[:-1] + ",}", body.replace(f": {SAID[says][0]}{AT}", f': "{SAID[says][0]}"{AT}'))
        )
    return Made(f"<answer>{body}</answer>", says)


def full_width(rng: random.Random, says: bool) -> Made:
    return Made(formed(rng, says, wide(rng, says)), says)


def wide(rng: random.Random, says: bool) -> str:
    """Return an answer with full-width colons, and perhaps commas and quotes."""
    comma, left, right = rng.choice(((",", '"', '"'), ("，", '"', '"'), ("，", "“", "”")))
    return f"{{{left}previous_step_success{right}：{SAID[says][0]}{AT}{comma}{left}refine_prompt{right}：{left}add a hat{right}}}"


def prose_after(rng: random.Random, says: bool) -> Made:
    return Made(
        f"{formed(rng, says)}\n\n{rng.choice(('', 'Explanation: ', 'Note: '))}{rng.choice(AGREES[says])}",
        says,
    )


def prose_before(rng: random.Random, says: bool) -> Made:
    before = rng.choice(("Here is my verdict:", "Sure, {here} it is:", *THOUGHTS[says], *AGREES[says]))
    body = answer(rng, says)
    return Made(f"{before}\n{rng.choice((body, f'<answer>{body}</answer>'))}", says)


def fields_agree(rng: random.Random, says: bool) -> Made:
    names = rng.sample(sorted(OTHER_FIELDS), 2)
    extra = {name: OTHER_FIELDS[name][not says] for name in names}
    return Made(formed(rng, says, answer(rng, says, extra=extra)), says)


def free_fields(rng: random.Random, says: bool) -> Made:
    return Made(formed(rng, says, answer(rng, says, extra=dict(rng.sample(FREE_FIELDS, 2)))), says)


def quoted_prompt(rng: random.Random, says: bool) -> Made:
    quote = rng.choice(
        ("<answer>{0}</answer>", "{0}", "a poster: {0}", "</answer>{0}", "</think>{0}", "Verdict: FAIL, {0}")
    )
    return Made(
        formed(rng, says, answer(rng, says, quote.format(answer(rng, not says, "").replace(AT, "")))), says
    )


def twice(rng: random.Random, says: bool) -> Made:
    body = answer(rng, says, "a red hat")
    return Made(f"<answer>{body}</answer>\n<answer>{body.replace(AT, '')}</answer>", says)


def family(rng: random.Random, says: bool) -> Made:
    begin, middle, end = rng.choice(list(FAMILIES.values()))
    thought = f"{rng.choice(THOUGHTS[not says])} {draft(rng, not says)}{rng.choice(THOUGHTS[says])}"
    body = rng.choice(("{0}", "<answer>{0}</answer>")).format(answer(rng, says))
    return Made(f"{begin}{thought}{middle}{body}{end}", says)


def held(rng: random.Random, says: bool) -> Made:
    thought = rng.choice(THOUGHTS[says])
    text = f"<answer>{answer(rng, says, 'a red hat')}</answer>"
    thinking = rng.random() < 0.3
    form = (
        "{1}</think>\n{0}"
        if thinking
        else rng.choice(("<think>{1}</think>\n{0}", "{0}\n<think>{1}</think>", "{0}"))
    )
    return Made(form.format(text, thought), says, thinking=thinking, held=True)


def taken_back(rng: random.Random, says: bool) -> Made:
    return Made(
        f"{formed(rng, says)}{rng.choice((' ', chr(10), chr(10) * 2))}{rng.choice(TAKEN_BACK[says])}", None
    )


def taken_back_abroad(rng: random.Random, says: bool) -> Made:
    return Made(f"{formed(rng, True)}\n{rng.choice(TAKEN_BACK_IN[rng.choice(list(TAKEN_BACK_IN))])}", None)


def taken_back_in_a_word(rng: random.Random, says: bool) -> Made:
    return Made(f"{formed(rng, says)}\n{rng.choice(ONE_WORD[says])}", None)


def stated_before(rng: random.Random, says: bool) -> Made:
    stated = rng.choice(
        (
            "Final verdict: FAIL",
            "**Verdict:** rejected",
            "Success: false",
            "The step failed.",
            "Result: fail",
            "结论：失败",
            "Urteil: nicht bestanden",
            "FAIL",
        )
    )
    return Made(f"{stated}\n\n{rng.choice(('{0}', '<answer>{0}</answer>')).format(answer(rng, True))}", None)


def field_against(rng: random.Random, says: bool) -> Made:
    name = rng.choice(sorted(OTHER_FIELDS))
    return Made(formed(rng, says, answer(rng, says, extra={name: OTHER_FIELDS[name][says]})), None)


def nested_against(rng: random.Random, says: bool) -> Made:
    name = rng.choice(sorted(OTHER_FIELDS))
    inner: Any = {name: OTHER_FIELDS[name][says]}
    for _ in range(rng.randint(1, 3)):
        inner = {rng.choice(PAYLOADS): rng.choice((inner, [inner], json.dumps(inner)))}
    return Made(formed(rng, says, answer(rng, says, extra=inner)), None)


def foreign_against(rng: random.Random, says: bool) -> Made:
    name = rng.choice(sorted(FOREIGN_FIELDS))
    return Made(formed(rng, says, answer(rng, says, extra={name: FOREIGN_FIELDS[name][says]})), None)


def other_object_against(rng: random.Random, says: bool) -> Made:
    name = rng.choice(sorted(OTHER_FIELDS))
    return Made(f"{formed(rng, says)}\n{json.dumps({name: OTHER_FIELDS[name][says]})}", None)


def only_comment(rng: random.Random, says: bool) -> Made:
    comment = rng.choice(COMMENTS).format(answer(rng, says))
    return Made(
        f"{rng.choice(('', 'I look at the images.' + chr(10)))}{comment}{rng.choice(('', chr(10) + 'The boat, the hat.'))}",
        None,
    )


def comment_against(rng: random.Random, says: bool) -> Made:
    comment = rng.choice(COMMENTS[:8]).format(answer(rng, not says, "add a hat").replace(AT, ""))
    parts = [formed(rng, says), comment]
    return Made("\n".join(parts), None)


def spelled_against(rng: random.Random, says: bool) -> Made:
    word = SAID[not says][0]
    other = rng.choice((
        wide(rng, not says).replace(AT, ""), f"previous_step_success：{word}", f"previous_step_success = {word}", f"success: {word}", f"{{success={word}}}",
        f"<previous_step_success>{word}</previous_step_success>", f"| previous_step_success | {word} |", f"previous_step_success: {word}\nrefine_prompt: add a hat",
        f"{{“success”: {word}}}", f"{{&quot;success&quot;: {word}}}", f"{{\\\"success\\\": {word}}}", f"previous_step_success is {word}.", f"`success` → `{word}`",
        f"{{'previous_step_success' : {word.title()}}}", f"(previous_step_success, {word})", f"previous_step_success⇒{word}", f"previousStepSuccess: {word}",
        f"**previous_step_success**: {word}", f"<success>{word}</success>", f"set previous_step_success to {word}", f"{{previous_step_success: {word}}}",
        f"{{\"previous_step_success\"= {word}}}", f"「previous_step_success」：「{word}」", f"{{\"success\"; {word}}}", f"{{\"success\":: {word}}}",
    ))  # fmt: skip
    return Made(f"{formed(rng, says)}{rng.choice(('', ' ', ' Correction:'))}\n{other}", None)


def two_answers(rng: random.Random, says: bool) -> Made:
    between = rng.choice((" Wait, that is wrong: ", "\nCorrection: ", "\n\nOn reflection:\n", "\n", " "))
    return Made(f"{formed(rng, says)}{between}{formed(rng, not says)}", None)


def respelled_answer(rng: random.Random, says: bool) -> Made:
    second = answer(rng, not says, key=rng.choice(KEYS)).replace(AT, "")
    if rng.random() < 0.4:
        second = json.dumps({rng.choice(PAYLOADS): second})
    return Made(f"{formed(rng, says)}\n{second}", None)


def envelope(rng: random.Random, says: bool) -> Made:
    inner: Any = {rng.choice(("previous_step_success", *KEYS)): not says, "refine_prompt": "add a hat"}
    for _ in range(rng.randint(1, 4)):
        inner = {
            rng.choice(PAYLOADS): rng.choice(
                (inner, [inner], json.dumps(inner), repr(inner), f"```json\n{json.dumps(inner)}\n```")
            )
        }
    return Made(
        rng.choice(("{0}", "<answer>{0}</answer>")).format(json.dumps({"success": says, **inner})), None
    )


def family_cut(rng: random.Random, says: bool) -> Made:
    begin, _, _ = rng.choice(list(FAMILIES.values()))
    first = f"{begin}{rng.choice(THOUGHTS[says])} {draft(rng, says)}"
    rest = f"{rng.choice(THOUGHTS[not says])} {draft(rng, not says)}"
    return Made((first + rest)[: rng.randint(len(begin), len(first + rest))], None, cut=rng.random() < 0.5)


def family_alone(rng: random.Random, says: bool) -> Made:
    begin, middle, end = rng.choice(list(FAMILIES.values()))
    return Made(f"{begin}{draft(rng, says)}{middle}{rng.choice(('', 'The hat, the boat.'))}{end}", None)


def open_thought(rng: random.Random, says: bool) -> Made:
    text = f"{rng.choice(THOUGHTS[says])} {draft(rng, says)}{rng.choice(THOUGHTS[not says])}"
    return Made(text[: rng.randint(1, len(text))], None, thinking=True, cut=True)


def mentioned(rng: random.Random, says: bool) -> Made:
    return Made(rng.choice(MENTIONS).format(answer(rng, True)), None)


def unsure(rng: random.Random, says: bool) -> Made:
    key = rng.choice(("previous_step_success", "success"))
    return Made(formed(rng, says, f'{{"{key}": {rng.choice(UNSURE)}, "refine_prompt": "..."}}'), None)


def prose_alone(rng: random.Random, says: bool) -> Made:
    return Made(rng.choice(PROSE), None)


def cut_back(rng: random.Random, says: bool) -> Made:
    """Cut a reply off within the words that take its answer back."""
    begin = formed(rng, True) + "\n"
    words = rng.choice([*TAKEN_BACK[True], *(one for many in TAKEN_BACK_IN.values() for one in many)])
    return Made(begin + words[: rng.randint(3, len(words))], None, cut=rng.random() < 0.5)


def cut(rng: random.Random, says: bool) -> Made:
    made = rng.choice((plain, fenced, answer_first, opened, corrected, family, free_fields))(rng, says)
    end = rng.randint(0, len(made.text) - 1)
    return replace(made, text=made.text[:end], says=says if made.text.index(AT) < end else None, cut=True)


def lost_piece(rng: random.Random, says: bool) -> Made:
    made = rng.choice((plain, fenced, answer_first, opened, corrected))(rng, says)
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


def unbraced(rng: random.Random, says: bool) -> Made:
    inner = answer(rng, says).strip("{}\n")
    return Made(rng.choice((inner, f"<answer>{inner}</answer>")), says)


def in_envelope(rng: random.Random, says: bool) -> Made:
    inner: Any = {"previous_step_success": says, "refine_prompt": "add a hat"}
    inner = {rng.choice(PAYLOADS): rng.choice((inner, [inner], json.dumps(inner)))}
    return Made(formed(rng, says, json.dumps({"success": says, **inner})), says)


MUST: dict[str, Callable[[random.Random, bool], Made]] = {
    "plain": plain, "fenced": fenced, "answer first": answer_first, "thought opened by the prompt": opened, "corrected in its thought": corrected,
    "other spelling": spelled, "full width": full_width, "prose after, agrees": prose_after, "prose before, agrees": prose_before,
    "fields that agree": fields_agree, "free fields": free_fields, "quoted in the prompt": quoted_prompt, "twice the same": twice,
    "thought of a family": family, "constrained": held,
}  # fmt: skip
MAY: dict[str, Callable[[random.Random, bool], Made]] = {
    "cut at any byte": cut, "lost piece": lost_piece, "quotes not escaped": unescaped, "without braces": unbraced, "envelope that agrees": in_envelope,
}  # fmt: skip
NOTHING: dict[str, Callable[[random.Random, bool], Made]] = {
    "taken back": taken_back, "taken back, 15 languages": taken_back_abroad, "taken back in a word": taken_back_in_a_word, "contradicted before": stated_before,
    "field against": field_against, "nested field against": nested_against, "foreign field against": foreign_against,
    "other object against": other_object_against, "only in a comment": only_comment, "comment against": comment_against,
    "other spelling against": spelled_against, "two answers": two_answers, "two spellings": respelled_answer, "envelope against": envelope,
    "family thought, cut off": family_cut, "family thought alone": family_alone, "open thought": open_thought, "only mentioned": mentioned,
    "unsure": unsure, "prose alone": prose_alone, "taken back, cut off": cut_back,
}  # fmt: skip
KINDS = MUST | MAY | NOTHING


def make(number: int) -> Made:
    """Return the reply with this number. The kinds take turns."""
    rng = random.Random(number)
    kind = list(KINDS)[number % len(KINDS)]
    made = KINDS[kind](rng, rng.random() < 0.5)
    return replace(made, text=made.text.replace(AT, ""), kind=kind, must=kind in MUST)
