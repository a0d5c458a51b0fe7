"""Exports of a run: complete, safe to open, and written completely or not at all."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from support.stories import make_trajectory

from interleave_thinker import Attempt, JournalError, Picture, Request, SettingsError, export_by_name
from interleave_thinker.backend.core.types import Plan, RunSettings, Step, StepResult, StopReason, Trajectory
from interleave_thinker.backend.output.exporters import REGISTRY, markdown, open_exporter, page
from interleave_thinker.backend.output.report.run_report import changes
from interleave_thinker.backend.story import outcomes

ATTACK = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'></style>&amp;"
VOID = {"meta", "img", "br", "link", "input", "hr"}


class Page(HTMLParser):
    """Collects the elements and visible texts of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        place = {"script": self.scripts, "style": self.styles}.get(
            self.open[-1] if self.open else "", self.text
        )
        place.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def pictures(self) -> list[dict[str, str | None]]:
        """Return the places that show an image."""
        return [one for one in self.all("svg") if one.get("class") == "picture"]

    def files(self) -> dict[str | None, str]:
        """Return the stored images by name: each `image` is in a `symbol`."""
        names = [one["id"] for one in self.all("symbol")]
        return dict(zip(names, [one["href"] or "" for one in self.all("image")], strict=True))

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


# Every exporter


@pytest.mark.parametrize("name", REGISTRY)
@pytest.mark.parametrize(
    "trajectory",
    [
        make_trajectory(3, cut_short=True, request_images=2),
        make_trajectory(0),
        Trajectory(request=Request(text=""), plan=Plan(steps=(Step(number=7, prompt="a boat"),))),
        make_trajectory(decorate=ATTACK),
    ],
    ids=["cancelled", "text only", "nothing reached", "hostile text"],
)
def test_every_exporter_accepts_every_run(name: str, trajectory: Trajectory, tmp_path: Path) -> None:
    path = export_by_name(name, trajectory, tmp_path / "new" / "folder")
    assert len(path.read_bytes()) > 100
    assert not [p for p in (tmp_path / "new").rglob("*") if p.name.startswith(".")], (
        "nothing half-written is left"
    )


@pytest.mark.parametrize("name", REGISTRY)
def test_the_same_run_gives_the_same_file(name: str, tmp_path: Path) -> None:
    path = export_by_name(name, make_trajectory(), tmp_path)
    first = path.read_bytes()
    assert export_by_name(name, make_trajectory(), tmp_path) == path
    assert path.read_bytes() == first


@pytest.mark.parametrize("name", REGISTRY)
def test_a_failed_export_keeps_the_old(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = export_by_name(name, make_trajectory(1), tmp_path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(JournalError, match="No space left"):
        export_by_name(name, make_trajectory(2), tmp_path)
    assert path.read_bytes() == before
    assert not [p for p in tmp_path.rglob("*") if p.name.startswith(".")]


def test_a_folder_that_is_a_file_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError):
        export_by_name("page", make_trajectory(1), tmp_path / "file")


def test_unknown_names_are_rejected() -> None:
    with pytest.raises(SettingsError, match="page, markdown, sheet, record"):
        open_exporter("film")


# Words


def test_summary_and_stop_sentences_are_complete() -> None:
    trajectory = make_trajectory()
    assert (
        outcomes.summarize(trajectory).sentence
        == "5 steps · 1 step not complete · 6 images generated · 2 of 4 images accepted · 7.3 s"
    )
    assert [outcomes.stop_sentence(result) for result in trajectory.results] == [
        "Accepted at attempt 2",
        "Accepted at attempt 1",
        "Never accepted: 3 attempts used up, attempt 3 kept",
        "Not judged by a critic",
        "Text only",
    ]
    cut = make_trajectory(3, text_step=False, cut_short=True)
    assert outcomes.stop_sentence(cut.results[-1]) == "Cancelled after 1 attempt, attempt 1 kept"
    assert outcomes.story_steps(cut)[-1].result is None


def test_every_stop_reason_has_a_text() -> None:
    step = Step(number=1, prompt="a boat")
    assert all(outcomes.stop_sentence(StepResult(step=step, stop_reason=reason)) for reason in StopReason)


def test_the_outcome_follows_the_acceptance_rule_of_the_run() -> None:
    trajectory = make_trajectory()
    attempt = trajectory.results[0].attempts[1]
    assert outcomes.outcome(attempt, trajectory.settings) is outcomes.AttemptOutcome.accepted
    strict = trajectory.settings.model_copy(update={"accept_at": 0.99})
    assert outcomes.outcome(attempt, strict) is outcomes.AttemptOutcome.refused


def test_an_invalid_title_gives_a_one_line_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"Export 'sheet', field 'title': "):
        export_by_name("sheet", make_trajectory(), tmp_path, title="x" * 100_001)


def test_a_lone_surrogate_is_removed_from_a_title(tmp_path: Path) -> None:
    path = export_by_name("page", make_trajectory(), tmp_path, title="A \ud800 boat")
    assert "A \ufffd boat" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("A boat.", "A boat"),
        ("A boat. And then a very long tale about it.", "A boat"),
        ("<image> Continue\n this", "Continue this"),
        ("", "Untitled story"),
        ("word " * 60, "word " * 15 + "word …"),
    ],
)
def test_titles(text: str, title: str) -> None:
    assert outcomes.title_of(make_trajectory(1, request=text)) == title


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0.01 s"), (12.34, "12.3 s"), (59.99, "60.0 s"), (60, "1 min 00 s"), (245, "4 min 05 s")],
)
def test_durations(seconds: float, text: str) -> None:
    assert outcomes.duration(seconds) == text


# What changed between prompts


@given(st.text(max_size=60), st.text(max_size=60))
def test_changes_restore_both_texts(before: str, after: str) -> None:
    pieces = changes(before, after)
    assert "".join(piece.text for piece in pieces if piece.kind != "ins") == before
    assert "".join(piece.text for piece in pieces if piece.kind != "del") == after


@given(st.lists(st.sampled_from(["a", "red", "boat", " ", ",", "\n"]), max_size=30), st.randoms())
def test_changes_of_edited_texts_restore_both(words: list[str], random) -> None:
    edited = [word for word in words if random.random() > 0.3] + random.choices(["blue", " "], k=2)
    pieces = changes("".join(words), "".join(edited))
    assert "".join(piece.text for piece in pieces if piece.kind != "ins") == "".join(words)
    assert "".join(piece.text for piece in pieces if piece.kind != "del") == "".join(edited)


def test_changes_are_whole_words_and_joined() -> None:
    pieces = changes("add a red boat at left", "add a blue ship at left, keep the sun")
    assert [tuple(piece) for piece in pieces] == [
        ("same", "add a "),
        ("del", "red boat"),
        ("ins", "blue ship"),
        ("same", " at left"),
        ("ins", ", keep the sun"),
    ]


def test_huge_prompts_do_not_take_quadratic_time() -> None:
    before = " ".join(f"word{index}" for index in range(20_000))
    assert [piece.kind for piece in changes(before[:99_000], before[:99_000] + "!")] == ["same", "ins"]
    assert [piece.kind for piece in changes("x " + "a " * 9000, "y " + "b a " * 5000)] == [
        "del",
        "ins",
        "same",
    ]


# Page


def stored(file: str) -> Picture:
    return Picture.from_base64(file)


def noise(number: int, side: int = 128) -> Picture:
    """Return an image that differs from all others and compresses badly without loss."""
    return Picture(Image.frombytes("RGB", (side, side), Random(number).randbytes(3 * side * side)))


def chain(pictures: list[Picture]) -> Trajectory:
    """Return a run whose steps edit the image of the step before, with two attempts each."""
    results, before = [], None
    for number, image in enumerate(pictures, 1):
        step = Step(number=number, prompt=f"change {number}")
        attempts = [Attempt(prompt="change", seed=seed, source=before, image=image) for seed in (1, 2)]
        results.append(
            StepResult(step=step, attempts=tuple(attempts), chosen=0, stop_reason=StopReason.accepted)
        )
        before = image
    request = Request(text="Change <image>", images=(pictures[0],))
    return Trajectory(
        request=request, plan=Plan(steps=tuple(one.step for one in results)), results=tuple(results)
    )


def test_the_page_stores_each_image_once() -> None:
    pictures = [noise(number) for number in range(5)]
    shown = Page(page.render(chain(pictures)))
    files = shown.files()
    assert len(files) == len(set(files.values())) == len(pictures) + 1, "and the blank page before the first"
    assert len(shown.pictures) == len(shown.all("use")) == 1 + 5 + 2 * 2 * 5
    assert {one["href"] for one in shown.all("use")} == {f"#{name}" for name in files}
    assert len(page.render(chain(pictures))) < 1.5 * sum(map(len, files.values())), "and nowhere else"


def test_photographs_are_stored_lossily_and_drawings_losslessly() -> None:
    photograph = noise(1, 512)
    file, *_ = Page(page.render(chain([photograph]))).files().values()
    kept = stored(file)
    assert kept.size == photograph.size and kept != photograph
    assert len(file) < len(photograph.data_url()) / 1.5
    drawing = make_trajectory(1, size=512).results[0].attempts[0].image
    assert drawing and drawing in [
        stored(one) for one in Page(page.render(chain([drawing]))).files().values()
    ]


def test_the_page_shows_the_whole_run() -> None:
    trajectory = make_trajectory(request_images=1)
    shown = Page(page.render(trajectory))
    for text in (trajectory.request.text, trajectory.plan.reasoning):
        assert text in shown.words
    for told in outcomes.story_steps(trajectory):
        for text in (told.step.name, told.step.instruction, told.step.prompt, told.step.auxiliary_text):
            assert text is None or text in shown.words
        assert told.result and outcomes.stop_sentence(told.result) in shown.words
    attempts = [attempt for result in trajectory.results for attempt in result.attempts]
    assert len([a for a in shown.all("section") if a.get("class") == "attempt"]) == len(attempts)
    for attempt in attempts:
        assert str(attempt.seed) in shown.words and attempt.prompt in shown.words
        if attempt.verdict:
            assert " ".join(attempt.verdict.reasoning.split()) in shown.words
        if attempt.error:
            assert attempt.error.message in shown.words
    for word in ("not understood", "not judged", "rejected", "accepted", "failed", "kept", "41 %", "96 %"):
        assert word in shown.words
    assert all(identity in shown.words for identity in trajectory.identities.model_dump().values())
    assert all(image["aria-label"] for image in shown.pictures), "each image has a label"
    assert shown.open == []


def test_the_page_marks_what_the_critic_changed() -> None:
    html = page.render(make_trajectory(1))
    assert "one red sailing boat<ins>, exactly there, and keep everything else unchanged</ins>" in html


def test_the_page_shows_a_white_image_for_a_missing_source() -> None:
    trajectory = make_trajectory(1)
    shown = Page(page.render(trajectory))
    name, file = next((name, file) for name, file in shown.files().items() if stored(file).is_white)
    assert stored(file) == Picture.white((96, 96))
    assert sum(one["href"] == f"#{name}" for one in shown.all("use")) == len(trajectory.results[0].attempts)
    assert "blank image" in shown.words


def test_the_page_loads_nothing_and_runs_only_its_own_script() -> None:
    shown = Page(page.render(make_trajectory(decorate=ATTACK, request_images=1)))
    assert len(shown.scripts) == len(shown.styles) == 1 and shown.open == []
    policy = next(m["content"] for m in shown.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert policy and policy.startswith("default-src 'none'")
    for content in (*shown.scripts, *shown.styles):
        assert "alert(" not in content
        assert base64.b64encode(hashlib.sha256(content.encode()).digest()).decode() in policy
    assert [image for image in shown.all("img") if "src" in image] == []
    assert all(file.startswith("data:image/") for file in shown.files().values())
    assert all((one["href"] or "").startswith("#") for one in shown.all("use"))
    assert not shown.all("link") and not shown.all("iframe")
    assert not [a for _, a in shown.tags if any(key.startswith("on") or key == "style" for key in a)]
    assert all((a["href"] or "").startswith("#") for a in shown.all("a"))
    assert not re.search(r"https?://", "".join(shown.scripts + shown.styles))
    assert shown.words.count("<script>alert(1)</script>") > 20, "hostile text is shown as text"


def test_the_page_shows_unreached_steps() -> None:
    shown = Page(page.render(make_trajectory(3, text_step=False, cut_short=True)))
    assert "Not reached" in shown.words and "Cancelled after 1 attempt" in shown.words
    assert "No image: the run ended before this step." in shown.words


def test_small_images_are_exact_and_large_ones_compressed() -> None:
    small = make_trajectory(1)
    after = small.results[0].attempts[0].image
    assert after and after in [stored(file) for file in Page(page.render(small)).files().values()]
    large = page.render(make_trajectory(2, size=1200))
    assert "data:image/webp" in large or "data:image/jpeg" in large
    assert len(large) < 1_500_000


def test_probabilities_are_not_rounded_to_certainty() -> None:
    shown = [outcomes.percent(share) for share in (0.41, 0.997, 0.004, 1.0)]
    assert shown == ["41 %", "99.7 %", "0.4 %", "100.0 %"]


@pytest.mark.parametrize("share", [0.985, 0.9951, 0.99949, 0.9999999])
def test_rejected_certainty_is_not_rounded_to_one(share: float) -> None:
    trajectory = make_trajectory(1)
    judged = trajectory.results[0].attempts[0]
    assert judged.verdict
    verdict = judged.verdict.model_copy(update={"success": True, "probability": share})
    words = outcomes.probability_words(
        judged.model_copy(update={"verdict": verdict}), RunSettings(accept_at=1.0)
    )
    number, rest = words.split(" % of ")
    assert float(number) < 100 and rest == "100 %"


def test_unjudged_run_is_not_shown_as_rejected() -> None:
    trajectory = make_trajectory(3)
    results = [
        one.model_copy(update={"stop_reason": StopReason.unjudged}) for one in trajectory.results if one.image
    ]
    sums = outcomes.summarize(trajectory.model_copy(update={"results": tuple(results)}))
    assert "3 images, not judged" in sums.sentence and "accepted" not in sums.sentence


# Markdown


def test_markdown_links_its_images_and_contains_the_story(tmp_path: Path) -> None:
    trajectory = make_trajectory(request_images=1)
    text = markdown.export(trajectory, tmp_path).read_text(encoding="utf-8")
    links = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    chosen = [result.image for result in trajectory.results if result.image]
    assert {Picture.open(tmp_path / link) for link in links} == {*chosen, *trajectory.request.images}
    assert len(links) == len(chosen) + 1
    assert "Never accepted: 3 attempts used up, attempt 3 kept." in text and "not understood" in text


def test_markdown_signs_in_texts_stay_signs(tmp_path: Path) -> None:
    hostile = "\n# not a heading\n- no list\n1. none\n**bold** [x](javascript:1) `code` " + ATTACK
    text = markdown.export(make_trajectory(decorate=hostile), tmp_path).read_text(encoding="utf-8")
    assert not re.search(r"(?<!\\)<(script|img)", text)
    assert "**bold**" not in text.replace("\\*", "") and "\n# not a heading" not in text
    assert "](javascript:" not in text.replace("\\]", "") and not re.search(
        r"^(> )?- no list", text, re.MULTILINE
    )
    assert not re.search(r"^(> )?1\. none", text, re.MULTILINE)


def test_the_page_shows_what_the_plan_check_finds() -> None:
    trajectory = make_trajectory(request="Tell a story of a boat in pictures.")
    first, second, *others = trajectory.plan.steps
    steps = (first, second.model_copy(update={"prompt": first.prompt}), *others)
    changed = trajectory.model_copy(update={"plan": trajectory.plan.model_copy(update={"steps": steps})})
    html = page.render(changed)
    (at_step,) = re.findall(r'<p class="finding">(.*?)</p>', html)
    assert at_step == "The prompt is the same as in step 1."
    assert html.index('href="#step-2"') < html.index(at_step) < html.index('href="#step-3"')
    # A plan by hand has no request, only a name.
    by_hand = changed.identities.model_copy(update={"planner": ""})
    html = page.render(changed.model_copy(update={"identities": by_hand}))
    assert re.findall(r'<p class="finding">(.*?)</p>', html) == [at_step]
    assert 'class="finding"' not in page.render_story(changed)
