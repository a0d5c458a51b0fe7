"""The whole ablation in miniature, how its folder can be continued, and its table."""

from __future__ import annotations

from pathlib import Path
from random import Random
from shutil import copytree

import pytest
from support.ablation_outcomes import write_seeds
from support.rendered_pages import rendered

from interleave_thinker.backend.core.errors import SettingsError, TrainingError
from interleave_thinker.research.tinyworld.ablation import training
from interleave_thinker.research.tinyworld.ablation.jobs import ROWS, all_jobs, measured, perform, seed_folder
from interleave_thinker.research.tinyworld.ablation.report import (
    ablate,
    as_markdown,
    claim,
    compare,
    findings_in,
)
from interleave_thinker.research.tinyworld.ablation.training import AblationSettings, agent_in
from interleave_thinker.tinyworld.wording import prompt_text

AGENTS = Path(__file__).parents[2] / "data" / "agents"
MINIATURE = AblationSettings(
    seeds=1, stories=2, untrained_stories=1, planner_rows=16, critic_rows=16, rl_rows=16, rollouts=1,
    checked=4, judged=4, verdict_tokens=32, plan_tokens=32, workers=1,
)  # fmt: skip


def test_every_job_needs_only_jobs_before_it(tmp_path: Path) -> None:
    before: set[Path] = set()
    for job in all_jobs(tmp_path, AGENTS, AblationSettings(seeds=2)):
        assert job.folder not in before and before.issuperset(job.needs), job.name
        before.add(job.folder)
    assert all(measured(seed_folder(tmp_path, seed), name) in before for name in ROWS for seed in range(2))


def test_a_folder_can_only_be_extended_by_seeds(tmp_path: Path) -> None:
    out, start = tmp_path / "out", tmp_path / "start"
    for name in ("base", "novice"):
        copytree(AGENTS / name, start / name)
    claim(out, start, MINIATURE)
    claim(out, start, MINIATURE.model_copy(update={"seeds": 2, "workers": 2}))
    with pytest.raises(TrainingError):
        claim(out, start, MINIATURE.model_copy(update={"rollouts": 2}))
    copytree(AGENTS / "critic", start / "novice", dirs_exist_ok=True)
    with pytest.raises(TrainingError):
        claim(out, start, MINIATURE)


def test_the_saved_start_can_judge(tmp_path: Path) -> None:
    training.check_start(AGENTS)
    rng = Random(1)
    pages = [rendered(rng) for _ in range(12)]
    said = agent_in(AGENTS / "novice", AblationSettings()).verdicts(
        [(one.before, one.after, prompt_text(one.edit), prompt_text(one.edit, one.clauses)) for one in pages]
    )
    right = [verdict and verdict.success == one.success for verdict, one in zip(said, pages, strict=True)]
    assert sum(map(bool, right)) >= 8


def test_a_start_without_a_novice_is_rejected_before_training(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason='training needs: pip install ".[training]"')
    copytree(AGENTS / "planner", tmp_path / "made" / "base")
    with pytest.raises(SettingsError, match="novice"):
        ablate(tmp_path / "out", tmp_path / "made", MINIATURE, "", "", lambda line: None)
    assert not (tmp_path / "out").exists()


@pytest.mark.stress
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("importable")
def test_a_miniature_run_has_every_row_and_can_be_resumed(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason='training needs: pip install ".[training]"')
    for job in all_jobs(tmp_path, AGENTS, MINIATURE):
        perform(job)
    # Stopped in one job; another process repeats that job and nothing else.
    (measured(seed_folder(tmp_path, 0), "alone") / "done.json").unlink()
    log: list[str] = []
    found = ablate(tmp_path, AGENTS, MINIATURE, "the command", "0" * 12, log.append)
    assert [line.split()[0].rstrip(":") for line in log] == ["seed_0/measured_alone"] * 2
    assert [row.name for row in found.rows] == list(ROWS)
    assert all(row.accuracy for row in found.rows if row.name in ("planner_sft", "sft", "rl"))
    rollout = seed_folder(tmp_path, 0) / "rl" / "rollouts" / "step_000000.jsonl"
    assert len(rollout.read_text().splitlines()) == 128
    assert all((tmp_path / f"ablation.{ending}").stat().st_size > 500 for ending in ("json", "md"))
    with pytest.raises(TrainingError):
        ablate(tmp_path, AGENTS, MINIATURE.model_copy(update={"stories": 3}), "", "", log.append)


def test_the_table_shows_the_outcomes(tmp_path: Path) -> None:
    settings = AblationSettings(seeds=3)
    write_seeds(tmp_path, settings)
    found = findings_in(tmp_path, settings, "the command", "0123456789abcdef", "base novice")
    rows = {row.name: row for row in found.rows}
    assert list(rows) == list(ROWS) and rows["rl"].stories[3].n == 300
    against = rows["rl"].against_baseline
    assert against is not None and against.baseline == "sft" and against.p_stories < 1e-6
    assert against.difference.low > 0.1 and against.p_seeds == pytest.approx(2 / 8)
    assert against.published == pytest.approx(1.8) and len(against.of_each_seed) == 3
    assert rows["alone"].against_baseline is None and list(rows["alone"].stories) == [1]
    accuracy = rows["rl"].accuracy
    assert accuracy is not None and accuracy.rate == pytest.approx(49 / 50)
    assert [one.published for one in found.tries["sft"]] == [None, None]
    assert [one.published for one in found.tries["rl"]] == [pytest.approx(5.1), pytest.approx(1.0)]
    assert found.outcomes[0]["rl"][3].count("1") == round(100 * rows["rl"].of_each_seed[0])
    text = as_markdown(found)
    assert all(row.title in text for row in ROWS.values()) and "the command" in text and "| 66.3 |" in text


def test_rows_are_compared_on_their_common_stories() -> None:
    few = compare("untrained", "alone", [[True], [True, False]], [[False, True], [False, False, True]])
    assert few.difference.n == 3 and few.of_each_seed == [1.0, 0.5]
    assert few.published == pytest.approx(29.9)


def test_equal_outcomes_still_have_an_interval() -> None:
    same = compare("rl", "sft", [[True] * 20] * 2, [[True] * 20] * 2).difference
    assert same.mean == 0 and -0.1 < same.low < 0 < same.high < 0.1
    ever = compare("rl", "sft", [[True] * 20] * 2, [[False] * 20] * 2).difference
    assert ever.mean == 1 and 0.8 < ever.low < 1
