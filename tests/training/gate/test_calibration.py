"""Calibration of P(success) on people's verdicts: what is read, fitted, stored and applied."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from support.cli_calls import call
from support.made_runs import grey_page, run_of, say
from support.small_agents import TrainedChat

from interleave_thinker import Attempt, Critic, Picture, Reply, SettingsError, Verdict
from interleave_thinker.backend.core.answers.reading import write_verdict
from interleave_thinker.backend.core.prompts.agent_card import CARD, AgentCard, Calibration, read_card
from interleave_thinker.backend.output.feedback_log import Feedback, record_feedback
from interleave_thinker.training.gate.calibration import Sure, calibrate, judged_by_people

HALF = Calibration(slope=0.5, intercept=-1.0, images=50)


def too_sure(count: int, seed: int = 0, right: float = 0.75) -> list[Sure]:
    """Verdicts of a critic that accepts with 0.999 and rejects with 0.001, and often errs when accepting."""
    rng = Random(seed)
    made = []
    for number in range(count):
        accepts = number % 2 == 0
        success = rng.random() < (right if accepts else 0.02)
        made.append(Sure(0.999 if accepts else 0.001, success))
    return made


def judged_run(folder: Path, judged: list[Sure], critic: str = "critic") -> Path:
    """Write a run whose attempts have these verdicts, and a person's verdict on each."""
    attempts = [
        Attempt(
            prompt=f"a page {number}",
            seed=number,
            image=grey_page(number % 250),
            verdict=Verdict(success=one.probability > 0.5, probability=one.probability),
        )
        for number, one in enumerate(judged)
    ]
    run_of(folder, attempts, critic)
    for number, one in enumerate(judged):
        say(folder, number, one.success)
    return folder


def test_a_critic_that_is_too_sure_becomes_honest() -> None:
    found = calibrate(too_sure(400))
    assert found.before > 0.1 and found.after < 0.05 and found.helps
    assert found.calibration.apply(0.999) == pytest.approx(0.75, abs=0.05)
    assert found.calibration.apply(0.001) < 0.06
    fresh = too_sure(4000, seed=9)
    after = [Sure(found.calibration.apply(one.probability), one.success) for one in fresh]
    error = {
        name: sum((one.probability - one.success) ** 2 for one in some)
        for name, some in (("raw", fresh), ("calibrated", after))
    }
    assert error["calibrated"] < error["raw"] * 0.9, "also for images that it was not fitted on"


def test_a_critic_that_is_right_gains_nothing_certain() -> None:
    assert not calibrate(too_sure(100, right=0.999)).helps


def test_the_order_of_images_stays() -> None:
    values = [HALF.apply(probability) for probability in (0.0, 1e-12, 0.01, 0.5, 0.99, 1.0)]
    assert values == sorted(values) and values[0] > 0 and values[-1] < 1


@pytest.mark.parametrize(
    ("judged", "reason"),
    [
        (too_sure(30), "at least 40 images"),
        ([Sure(0.9, True)] * 60, "60 right and 0 wrong"),
        ([Sure(0.9, False), Sure(0.1, True)] * 30, "does not rise"),
    ],
)
def test_too_little_or_contrary_evidence_is_an_error(judged: list[Sure], reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        calibrate(judged)


def test_only_peoples_verdicts_on_judged_images_are_read(tmp_path: Path) -> None:
    judged = [Sure(0.9, True), Sure(0.2, False), Sure(0.8, False)]
    run = judged_run(tmp_path / "run", judged)
    assert sorted(judged_by_people([tmp_path])) == sorted(judged)
    record_feedback(run, Feedback(step=1, attempt=0))  # withdrawn
    record_feedback(run, Feedback(step=1, attempt=1, accepted=True))  # the last word counts
    assert sorted(judged_by_people([run])) == [Sure(0.2, True), Sure(0.8, False)]
    record_feedback(run, Feedback(step=1, attempt=2, accepted=True, image="0" * 40))  # of another image
    assert judged_by_people([run]) == [Sure(0.2, True)]
    judged_run(tmp_path / "same", judged, critic="critic|other prompts")
    assert len(judged_by_people([tmp_path])) == 3
    judged_run(tmp_path / "other", judged, critic="other")
    with pytest.raises(SettingsError, match=r"other' by other, .*run' by critic"):
        judged_by_people([tmp_path])
    judged_run(tmp_path / "calibrated", judged, critic=f"critic{HALF.identity}")
    with pytest.raises(SettingsError, match="calibrated critic"):
        judged_by_people([tmp_path])


def test_the_command_stores_a_calibration_that_helps(tmp_path: Path) -> None:
    judged_run(tmp_path / "run", too_sure(200))
    AgentCard(role="critic").save(tmp_path)
    done = call("evaluate", "calibration", tmp_path / "run", "--save", tmp_path)
    assert done.exit_code == 0, done.output
    card = read_card(tmp_path / CARD)
    assert card is not None and card.role == "critic" and card.calibration is not None
    assert card.calibration.images == 200 and "P(success) 0.999 becomes 0.7" in done.output
    judged_run(tmp_path / "good", too_sure(100, right=0.999))
    other = tmp_path / "other"
    other.mkdir()
    done = call("evaluate", "calibration", tmp_path / "good", "--save", other)
    assert done.exit_code == 3 and not (other / CARD).exists()


def test_a_calibrated_critic_reports_it_and_has_another_identity() -> None:
    reply = Reply(text=write_verdict(Verdict(success=True, refined_prompt="a")), probability=0.999)
    page = Picture.white((8, 8))
    plain, calibrated = (Critic(TrainedChat([reply], AgentCard(calibration=one))) for one in (None, HALF))
    verdicts = [critic.judge(page, page, "a", "a") for critic in (plain, calibrated)]
    assert [one.probability for one in verdicts] == [0.999, pytest.approx(HALF.apply(0.999))]
    assert calibrated.identity == f"{plain.identity}|calibrated=0.5,-1"
