"""Answers of agents: every known form is parsed, nothing is guessed, and written answers are read back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interleave_thinker.backend.core.answers.answer_models import is_placeholder
from interleave_thinker.backend.core.answers.reading import read_plan, read_verdict, write_plan, write_verdict
from interleave_thinker.backend.core.answers.reply_text import TAG
from interleave_thinker.backend.core.errors import AnswerError
from interleave_thinker.backend.core.types import MAX_TEXT, Plan, Step, Verdict

# The word that models write for nothing, placeholders, and tags within the reasoning are rejected, and
# Hypothesis also generates words that it finds in the sources.
texts = st.text(max_size=60).filter(
    lambda text: text.strip().lower() not in ("none", "null") and not is_placeholder(text)
)
thoughts = texts.filter(lambda text: TAG.search(text) is None)
optional = st.none() | texts
# Pieces that real replies are made of, in any order: most of what a parser can trip over.
words = (
    "<think> </think> <answer> </answer> ``` ```json { } [ ] , : \" ' \\ True False true false None null "
    "previous_step_success success refine_prompt execution_plan step_number prompt 1 0.7 ok"
)
pieces = st.sampled_from(
    [
        *words.split(),
        "\n",
        '"previous_step_success": true',
        '"refine_prompt": "x"',
        '{"execution_plan": [',
        "{'step_number': 1, 'prompt': 'a'}",
        '{"step_number": 2, "prompt": "b"]',
        '["step_number": 3, "prompt": "c"}',
        '"execution_plan": [{"step_number": 2, "prompt": "b"}], ',
    ]
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    numbers = sorted(draw(st.sets(st.integers(1, 999), min_size=1, max_size=4)))
    steps = []
    for number in numbers:
        instruction, prompt, auxiliary = draw(optional), draw(optional), draw(optional)
        if (not prompt and not auxiliary) or (instruction and prompt is not None and not prompt.strip()):
            prompt = "a red boat"
        steps.append(
            Step(
                number=number,
                name=draw(texts),
                instruction=instruction,
                prompt=prompt,
                auxiliary_text=auxiliary,
            )
        )
    return Plan(steps=tuple(steps), reasoning=draw(thoughts))


verdicts = st.builds(Verdict, success=st.booleans(), refined_prompt=texts, reasoning=thoughts)


@given(plans())
def test_a_plan_is_read_back_as_it_was_written(plan: Plan) -> None:
    assert read_plan(write_plan(plan)) == plan


@given(verdicts)
def test_a_verdict_is_read_back_as_it_was_written(verdict: Verdict) -> None:
    assert read_verdict(write_verdict(verdict)) == verdict


def test_the_written_layout_is_exact() -> None:
    verdict = Verdict(success=False, refined_prompt="a “blue” boat", reasoning="It is red.")
    assert write_verdict(verdict) == (
        "<think>It is red.</think>\n\n"
        '<answer>{"previous_step_success": false, "refine_prompt": "a “blue” boat"}</answer>'
    )
    plan = Plan(steps=(Step(number=3, name="n", prompt="p"),))
    assert write_plan(plan) == (
        '<think></think>\n\n<answer>{"execution_plan": [{"step_number": 3, "step_name": "n", '
        '"instruction": null, '
        '"prompt": "p", "auxiliary_text": null}]}</answer>'
    )


@pytest.mark.parametrize("tag", ["</think>", "<think>", "<answer>", "</answer>", "</ THINK >"])
def test_tags_in_a_prompt_survive_and_tags_in_the_reasoning_raise(tag: str) -> None:
    verdict = Verdict(success=False, refined_prompt=f"a sign that says {tag} {{'a': 1}}", reasoning="no")
    assert read_verdict(write_verdict(verdict)) == verdict
    plan = Plan(steps=(Step(number=1, prompt=f"{tag}", auxiliary_text=f"x{tag}"),))
    assert read_plan(write_plan(plan)) == plan
    try:
        written = write_verdict(verdict.model_copy(update={"reasoning": f"a {tag} b"}))
    except AnswerError:
        return
    assert read_verdict(written).reasoning == f"a {tag} b"


def test_ambiguous_values_are_not_written() -> None:
    with pytest.raises(AnswerError):
        write_verdict(Verdict(success=None, reasoning="not understood"))
    with pytest.raises(AnswerError):
        write_verdict(Verdict(success=False, refined_prompt="None"))
    with pytest.raises(AnswerError):
        write_plan(Plan(steps=(Step(number=1, prompt="None}, {'step_number': 2"),)))
    with pytest.raises(AnswerError):
        write_plan(Plan(steps=(Step(number=1, prompt="a" * MAX_TEXT),)))


WHOLE = '"previous_step_success": false, "refine_prompt": "make the boat blue"'
WILD_VERDICTS = {
    "plain": f"<think>It is red.</think>\n\n<answer>{{{WHOLE}}}</answer>",
    "python literal": (
        "<answer>{'previous_step_success': False, 'refine_prompt': 'make the boat blue'}</answer>"
    ),
    "verdict key": '<answer>{"success": false, "refine_prompt": "make the boat blue"}</answer>',
    "refined_prompt": '{"success": false, "refined_prompt": "make the boat blue"}',
    "string verdict": '{"previous_step_success": "False", "refine_prompt": "make the boat blue"}',
    "reasoning": f'<Reasoning>Not {{"success": true}}: red.</Reasoning>{{{WHOLE}}}',
    "think not opened": f"It is red.</think>\n<answer>{{{WHOLE}}}</answer>",
    "answer not closed": f"<think>It is red.</think><answer>{{{WHOLE}}}",
    "brace not closed": f"<think>It is red.</think><answer>{{{WHOLE}</answer>",
    "trailing comma": f"<answer>{{{WHOLE},}}</answer>",
    "text around": f"Sure, {{here}} it is:\n{{{WHOLE}}}\nHave a nice day {{smile}}.",
    "text around tags": f"Well. <answer>{{{WHOLE}}}</answer> Done.",
    "unquoted": "{previous_step_success: false, refine_prompt: make the boat blue}",
    "other keys": f'{{"confidence": 0.3, {WHOLE}, "note": ["a", {{"b": 1}}]}}',
    "twice the same": f"<answer>{{{WHOLE}}}</answer><answer>{{{WHOLE}}}</answer>",
    "camel case": '{"previousStepSuccess": false, "refinePrompt": "make the boat blue"}',
    "thought of an unknown name": f'<analysis>Is {{"success": true}} right?</analysis>\n{{{WHOLE}}}',
    "Markdown that agrees": f"{{{WHOLE}}}\n\n**Verdict:** `false`, not `true` or `false` alike.",
    "envelope that agrees": f'{{"success": false, {WHOLE}, "data": "{{\'success\': false}}"}}',
    "end of a text's mark": f"<s><answer>{{{WHOLE}}}</answer></s>",
    "tags in capitals": f"<THINK>It is red.</THINK><Answer>{{{WHOLE}}}</Answer>",
}


@pytest.mark.parametrize("text", WILD_VERDICTS.values(), ids=WILD_VERDICTS.keys())
def test_wild_verdicts_are_read(text: str) -> None:
    verdict = read_verdict(text)
    assert (verdict.success, verdict.refined_prompt) == (False, "make the boat blue")
    assert verdict.probability is None


QUOTED = (
    "<answer>{'success': true}</answer>",
    "not {'success': true}",
    "\n{'success': true}\n",
    "</answer><answer>{'success': True, 'refine_prompt': 'x'}</answer>",
    "<think>{'previous_step_success': true}</think>",
    "'success': true, 'x': '",
)


@pytest.mark.parametrize("quoted", QUOTED)
@pytest.mark.parametrize(
    "frame", ["{}", "<answer>{}</answer>", "<think>a</think>\n<answer>{}</answer>", "a</think>{}"]
)
def test_quoted_verdicts_never_decide(quoted: str, frame: str) -> None:
    for value in (
        {"success": False, "refine_prompt": quoted},
        {"refine_prompt": quoted, "success": False},
        {"note": [{"a": f"a poster: {quoted}"}], "success": False, "refine_prompt": quoted},
    ):
        for body in (json.dumps(value), repr(value), json.dumps(value, indent=1)):
            verdict = read_verdict(frame.format(body))
            assert (verdict.success, verdict.refined_prompt) == (False, quoted)


def test_an_unquoted_name_keeps_its_prompt() -> None:
    verdict = read_verdict('{Refine Prompt: "x", success: false}')
    assert (verdict.success, verdict.refined_prompt) == (False, "x")


@pytest.mark.parametrize("name", ["plain", "think not opened", "tags in capitals"])
def test_the_reasoning_is_the_thinking_text(name: str) -> None:
    assert read_verdict(WILD_VERDICTS[name]).reasoning.strip() == "It is red."


def test_reasoning_loses_its_frame_of_line_breaks() -> None:
    assert read_verdict('<think>\nfine\n</think>\n<answer>{"success": true}</answer>').reasoning == "fine"


@pytest.mark.parametrize("word", ['""', "null", "None", '"None"'])
def test_an_empty_refined_prompt_keeps_the_prompt(word: str) -> None:
    verdict = read_verdict(f'<answer>{{"previous_step_success": false, "refine_prompt": {word}}}</answer>')
    assert verdict == Verdict(success=False, refined_prompt="")


@pytest.mark.parametrize(
    "text",
    [
        '<think>good</think>\n\n<answer>{"previous_step_success": true,',
        '<think>good</think>\n\n<answer>{"previous_step_success": true}',
        "<think>good</think>\n\n<answer>{'previous_step_success': True,",
        '<think>good</think>\n\n<answer>{"previous_step_success": "True",',
        '<think>good</think>\n\n<answer>{"previous_step_success": true</answer>',
        '<think>good</think>\n\n<answer>{"previous_step_success": true, "refine_prompt": "a bo',
    ],
)
def test_a_reply_that_stops_at_a_true_verdict_is_complete(text: str) -> None:
    assert read_verdict(text) == Verdict(success=True, refined_prompt="", reasoning="good")


def many_times_encoded(times: int) -> str:
    text = f"{{{WHOLE}}}"
    for _ in range(times):
        text = json.dumps(text)
    return text


NEVER_GUESSED = {
    "nothing": "",
    "half a character": '<think>\ud83d</think>{"success": true}',
    "half a character, escaped": '{"success": false, "refine_prompt": "\\ud83d"}',
    "cut before the verdict": '<think>good</think><answer>{"previous_step_success":',
    "cut in the verdict": '<answer>{"previous_step_success": tru',
    "cut before what ends a Python verdict": "<think>good</think><answer>{'previous_step_success': True",
    "cut before a verdict's quote": '<think>good</think><answer>{"previous_step_success": "True',
    "cut at the refined prompt": '<answer>{"previous_step_success": false, "refine_prompt":',
    "two verdict keys": '{"previous_step_success": true, "success": false, "refine_prompt": ""}',
    "one key twice": '{"success": true, "success": false, "refine_prompt": "a"}',
    "two answers": (
        '<answer>{"success": true}</answer><answer>{"success": false, "refine_prompt": "a"}</answer>'
    ),
    "two objects": '{"success": false, "refine_prompt": "a"} or {"success": true, "refine_prompt": ""}',
    "two refined prompts": '{"success": false, "refine_prompt": "a", "refined_prompt": "b"}',
    "maybe": '{"success": "maybe", "refine_prompt": "a"}',
    "number": '{"success": 0.7, "refine_prompt": "a"}',
    "list": '{"success": [true], "refine_prompt": "a"}',
    "the grammar echoed": '{"previous_step_success": true or false, "refine_prompt": "..."}',
    "only in the thinking": '<think>{"previous_step_success": true}</think>',
    "only in unfinished thinking": '<think>So {"previous_step_success": true}? Wait, the boat',
    "refined prompt is a list": '{"success": false, "refine_prompt": ["a"]}',
    "in a sentence": 'I cannot answer {"previous_step_success": true}: the hat is missing.',
    "on lines of a text without its braces": '"note": "not\n{\'success\': true}\n", "a": 1',
    "in a thought that is not closed": '<think>Is it <answer>{"success": true}</answer>? The hat',
    "corrected": '<answer>{"success": true}</answer> Correction: {"success": false, "refine_prompt": "x"}',
    "corrected in words": '<answer>{"success": true}</answer> Wait: success is wrong, success: false',
    "corrected, cut off": '<answer>{"success": true}</answer> Correction: <answer>{"success": fal',
    "corrected after its thought": (
        '<answer>{"success": true}</answer>so</think><answer>{"success": false, '
        '"refine_prompt": "x"}</answer>'
    ),
    "the grammar echoed in quotes": '{"previous_step_success": "true" or "false", "refine_prompt": "..."}',
    "a statement where quotes are not escaped": (
        '{"success": true, "refine_prompt": "a "success": false" sign"}'
    ),
    "quoted": 'The prompt says "<answer>{"success": true}</answer>" and "refine_prompt": "x"',
    "in a thought of another name": '<thinking>Is it <answer>{"success": true}</answer>?</thinking> No hat.',
    "in an envelope": '{"success": true, "data": {"previous_step_success": false, "refine_prompt": "x"}}',
    "in the envelope of a tool": (
        '<answer>{"tool": "judge", "success": true, "output": {"previous_step_success": false}}</answer>'
    ),
    "in an envelope, encoded": json.dumps({"success": True, "data": f"{{{WHOLE}}}"}),
    "in an envelope, encoded as a literal": json.dumps({"success": True, "data": "{'success': False}"}),
    "in an envelope, as a reply": json.dumps({"success": True, "text": f"<answer>{{{WHOLE}}}</answer>"}),
    "in an envelope, in a list": json.dumps(
        {"success": True, "refine_prompt": "", "a": [{"b": [f"{{{WHOLE}}}"]}]}
    ),
    "in an envelope, in HTML": json.dumps({"success": True, "text": "{&quot;success&quot;: false}"}),
    "envelope that failed": '{"success": false, "refine_prompt": "x", "data": {"isSuccessful": true}}',
    "encoded eight times": json.dumps({"success": True, "data": many_times_encoded(8)}),
    "corrected with an arrow": '<answer>{"success": true}</answer> No: success -> false',
    "corrected as a verdict": '<answer>{"success": true}</answer> Actually, the verdict should be false.',
    "corrected under a similar name": '{"previous_step_success": true}\n{"step_success": false}',
    "corrected under an opposite name": '{"previous_step_success": true}\n{"failed": true}',
    "corrected by a prompt": '{"success": true}\n{"passed": false, "refinePrompt": "add the hat"}',
    "in a thought of an unknown name": '<analysis>\n{"success": true}\n</analysis>\nThere is no hat.',
    "in an open thought of an unknown name": '<scratchpad>\n{"success": true}\nThere is no hat.',
    "before the end of an unknown thought": '\n{"success": true}\n</reflection>\nThere is no hat.',
    "in a thought within the answer": '<answer><draft>\n{"success": true}\n</draft>\nNo hat.</answer>',
    "the form's prompt": '{"success": false, "refine_prompt": "The Prompt to Draw With."}',
    "a prompt that is too long": json.dumps({"success": False, "refine_prompt": "a " * 20_000}),
    "many brackets": "[" * 6000 + '\n{"success": true}',
    "too long": '{"success": true, "refine_prompt": "' + "a" * MAX_TEXT + '"}',
    "too deep": '{"success": ' * 500,
}


@pytest.mark.parametrize("text", NEVER_GUESSED.values(), ids=NEVER_GUESSED.keys())
def test_a_verdict_is_never_guessed(text: str) -> None:
    with pytest.raises(AnswerError) as caught:
        read_verdict(text)
    assert len(str(caught.value)) < 900
    if text:
        assert caught.value.quote


@pytest.mark.parametrize("prompt", ["...", "the prompt to draw with", "a " * 20_000])
def test_the_prompt_next_to_a_true_verdict_is_ignored(prompt: str) -> None:
    """A reply that stops at true has none."""
    assert read_verdict(json.dumps({"previous_step_success": True, "refine_prompt": prompt})).success is True


STEP = {
    "step_number": 1,
    "step_name": "Boat",
    "instruction": "Draw.",
    "prompt": "a boat",
    "auxiliary_text": None,
}
TEXT_STEP = {
    "step_number": 2,
    "step_name": "End",
    "instruction": None,
    "prompt": None,
    "auxiliary_text": "The end.",
}
BOTH = {"execution_plan": [STEP, TEXT_STEP]}
WILD_PLANS = {
    "json": f"<think>two</think>\n\n<answer>{json.dumps(BOTH)}</answer>",
    "literal": f"<answer>{BOTH}</answer>",
    "bare": f"Here you are:\n{json.dumps(BOTH)}\nEnjoy.",
    "answer not closed": f"<think>two</think><answer>{json.dumps(BOTH)}",
    "outer brace missing": f"<answer>{json.dumps(BOTH)[:-1]}</answer>",
    "mixed words": f"<answer>{BOTH}</answer>".replace("None", "null").replace("'The end.'", "'The end.',"),
    "number as a string": f"<answer>{json.dumps(BOTH)}</answer>".replace(
        '"step_number": 1', '"step_number": "1"'
    ),
    "trailing commas": f"<answer>{json.dumps(BOTH)}</answer>".replace("]}", ",],}"),
}

ONE, TWO = json.dumps(STEP), json.dumps(TEXT_STEP)
WILD_PLANS |= {
    "the key twice": f'<answer>{{"execution_plan": [{ONE}], "execution_plan": [{TWO}]}}</answer>',
    "a line for each bare step": f"<answer>\n{ONE}\n{TWO}\n</answer>",
    "a line for each bare step in a fence": f"The steps:\n```json\n{ONE},\n{TWO}\n```",
    "a bracket ends a step": f'<answer>{{"execution_plan": [{ONE[:-1]}], {TWO}]}}</answer>',
    "a bracket ends the answer": f'<answer>{{"execution_plan": [{ONE}, {TWO}]]</answer>',
    "a brace ends the list": f'<answer>{{"execution_plan": [{ONE}, {TWO}}}}}</answer>',
    "brackets around a step": f'<answer>{{"execution_plan": [[{ONE[1:-1]}], {TWO}]}}</answer>',
}


@pytest.mark.parametrize("text", WILD_PLANS.values(), ids=WILD_PLANS.keys())
def test_wild_plans_are_read(text: str) -> None:
    drawn, told = read_plan(text).steps
    assert drawn == Step(number=1, name="Boat", instruction="Draw.", prompt="a boat")
    assert told == Step(number=2, name="End", auxiliary_text="The end.")


def test_a_step_may_be_called_text() -> None:
    plan = read_plan(json.dumps({"execution_plan": [TEXT_STEP | {"step_name": "Text"}]}))
    assert plan.steps[0].name == "Text"
    with pytest.raises(AnswerError, match="copy of the example"):
        read_plan(json.dumps({"execution_plan": [TEXT_STEP | {"auxiliary_text": "text"}]}))


def test_a_plan_that_counts_from_0_begins_with_step_1() -> None:
    steps = [STEP | {"step_number": 0}, TEXT_STEP | {"step_number": 1}, STEP | {"step_number": 4}]
    plan = read_plan(f"<answer>{json.dumps({'execution_plan': steps})}</answer>")
    assert [step.number for step in plan.steps] == [1, 2, 5]
    with pytest.raises(AnswerError):
        read_plan(json.dumps({"execution_plan": [STEP, STEP | {"step_number": 0}]}))


@pytest.mark.parametrize("empty", [None, "None"])
def test_text_only_in_the_instruction_makes_a_text_only_step(empty: str | None) -> None:
    told = {"step_number": 1, "instruction": "The end.", "prompt": empty, "auxiliary_text": ""}
    (step,) = read_plan(json.dumps({"execution_plan": [told]})).steps
    assert (step.auxiliary_text, step.instruction) == ("The end.", None) and not step.prompt


def test_apostrophes_in_single_quoted_texts_are_kept() -> None:
    text = (
        "<answer>{'execution_plan': [{'step_number': 4, 'prompt': 'the cat's hat, in 'red'', "
        "'auxiliary_text': null},]}"
    )
    assert read_plan(text).steps == (Step(number=4, prompt="the cat's hat, in 'red'"),)


def in_pieces(parts: list[list[dict[str, object]]], form: str) -> str:
    if form == "key":
        told = ", ".join(f'"execution_plan": {json.dumps(part)}' for part in parts)
        return f"<answer>{{{told}}}</answer>"
    return "<answer>" + "\n".join(json.dumps(step) for part in parts for step in part) + "</answer>"


@given(
    st.lists(st.integers(1, 3), min_size=2, max_size=4),
    st.sampled_from(["key", "bare"]),
    st.integers(1, 20),
    st.data(),
)
def test_a_plan_in_pieces_must_ascend(sizes: list[int], form: str, first: int, data: st.DataObject) -> None:
    numbers = iter(range(first, first + sum(sizes)))
    parts: list[list[dict[str, object]]] = [
        [
            {"step_number": number, "prompt": f"boat {number}"}
            for _ in range(size)
            for number in [next(numbers)]
        ]
        for size in sizes
    ]
    plan = read_plan(in_pieces(parts, form))
    assert [(step.number, step.prompt) for step in plan.steps] == [
        (number, f"boat {number}") for number in range(first, first + sum(sizes))
    ]
    part = data.draw(st.integers(1, len(parts) - 1))
    shift = data.draw(st.integers(-first - 4, 9).filter(bool))
    for step in parts[part]:
        step["step_number"] = int(str(step["step_number"])) + shift
    with pytest.raises(AnswerError):
        read_plan(in_pieces(parts, form))


BAD_PLANS = {
    "swallowed steps": (
        '<answer>{"execution_plan": [{"step_number": 1, "prompt": "a boat", "auxiliary_text": '
        "\"None}, {'step_number': 2, 'prompt': 'a house'\"}]}</answer>"
    ),
    "list as a string": '{"execution_plan": "[{\'step_number\': 1}]"}',
    "cut in a step": f"<answer>{json.dumps(BOTH)[:-30]}",
    "cut after a step": f"<answer>{json.dumps(BOTH).partition(', {')[0]}",
    "no steps": '{"execution_plan": []}',
    "numbers fall": (
        '{"execution_plan": [{"step_number": 2, "prompt": "a"}, {"step_number": 1, "prompt": "a"}]}'
    ),
    "two plans": f"{json.dumps(BOTH)} {json.dumps({'execution_plan': [STEP]})}",
    "verdict": '{"previous_step_success": true}',
    "the form's prompt": json.dumps({"execution_plan": [STEP | {"prompt": "What the image model is told"}]}),
    "a type as prompt": json.dumps({"execution_plan": [STEP | {"prompt": "string or null"}]}),
    "prompt too long": json.dumps({"execution_plan": [STEP | {"prompt": "a " * 20_000}]}),
    "too many": json.dumps({"execution_plan": [{"step_number": n, "prompt": "a"} for n in range(1, 103)]}),
}

AGAIN = json.dumps(STEP | {"prompt": "a house"})
BAD_PLANS |= {
    "the key twice with the same step": f'{{"execution_plan": [{ONE}], "execution_plan": [{AGAIN}]}}',
    "the key twice without numbers": (
        '{"execution_plan": [{"prompt": "a"}], "execution_plan": [{"prompt": "b"}]}'
    ),
    "the key twice, once null": f'{{"execution_plan": null, "execution_plan": [{ONE}]}}',
    "the key twice, a placeholder": (
        f'{{"execution_plan": [{ONE}], "execution_plan": [{{"step_number": 2, "prompt": "..."}}]}}'
    ),
    "the key twice, cut off": f'{{"execution_plan": [{ONE}], "execution_plan": [{TWO[:-5]}',
    "an answer for each step": (
        f'<answer>{{"execution_plan": [{ONE}]}}</answer>\n<answer>{{"execution_plan": [{TWO}]}}</answer>'
    ),
    "an answer for each bare step": f"<answer>{ONE}</answer>\n<answer>{TWO}</answer>",
    "a fence for each step": f"```json\n[{ONE}]\n```\nThen:\n```json\n[{TWO}]\n```",
    "no brace ends the last step": f'<answer>{{"execution_plan": [{ONE}, {TWO[:-1]}]}}</answer>',
    "no comma": f'<answer>{{"execution_plan": [{ONE}]}}</answer>'.replace('"Boat", ', '"Boat" '),
    "no colon": f'<answer>{{"execution_plan": [{ONE}]}}</answer>'.replace('"prompt":', '"prompt"'),
    "an empty prompt and an instruction": json.dumps({"execution_plan": [STEP | {"prompt": ""}]}),
    "a misspelled prompt": json.dumps({"execution_plan": [TEXT_STEP | {"promt": "a boat"}]}).replace(
        '"prompt": null, ', ""
    ),
    "two answers, one cut off": (
        f'<answer>{{"execution_plan": [{ONE}]}}</answer><answer>{{"execution_plan": [{TWO}, {{"a'
    ),
    "no bracket ends the list": f'<answer>{{"execution_plan": [{ONE}, {TWO}}}</answer>',
    "a second plan after a wrong bracket": (f'{{"execution_plan": [{ONE}]], "execution_plan": [{AGAIN}]}}'),
    "a bracket within a step": '{"execution_plan": [{"step_number": 1], "prompt": "a"}]}',
}


@pytest.mark.parametrize("text", BAD_PLANS.values(), ids=BAD_PLANS.keys())
def test_a_plan_is_never_guessed(text: str) -> None:
    with pytest.raises(AnswerError) as caught:
        read_plan(text)
    assert caught.value.quote


UNFIT = {
    "no steps": ({"execution_plan": []}, "execution_plan is an empty list; it must have at least 1 entries."),
    "number is a word": (
        {"execution_plan": [STEP | {"step_number": "first"}]},
        "execution_plan[0].step_number is 'first'; it must be a whole number.",
    ),
    "number is missing": (
        {"execution_plan": [STEP, {"prompt": "a"}]},
        "execution_plan[1].step_number; it is missing.",
    ),
}


@pytest.mark.parametrize(("plan", "said"), UNFIT.values(), ids=UNFIT.keys())
def test_errors_do_not_contain_names_of_the_code(plan: object, said: str) -> None:
    with pytest.raises(AnswerError) as caught:
        read_plan(json.dumps(plan))
    assert said in str(caught.value)
    for name in ("StepAnswer", "Tuple", "Input should", "valid dictionary", "Value error"):
        assert name not in str(caught.value)


@settings(max_examples=300, deadline=None)
@given(st.lists(pieces | st.text(max_size=5), max_size=25).map("".join))
def test_no_reply_raises_anything_but_an_answer_error(text: str) -> None:
    for read in (read_plan, read_verdict):
        try:
            read(text)
        except AnswerError as error:
            assert str(error)


@settings(max_examples=200, deadline=None)
@given(verdicts, st.integers(0, 400), st.integers(0, 400), texts)
def test_damage_never_turns_a_verdict_around(verdict: Verdict, start: int, length: int, text: str) -> None:
    """Cutting a reply anywhere, or adding garbage after the cut, may lose the verdict but not invert it."""
    written = write_verdict(verdict)
    cut = written[: min(start, len(written))]
    for damaged in (cut, cut + "\n```\n</answer>", written + text[:length]):
        try:
            assert read_verdict(damaged).success == verdict.success
        except AnswerError:
            continue
