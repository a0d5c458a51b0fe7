"""The table of the ablation, from outcomes of one or several machines."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from support.ablation_outcomes import write_seeds

from interleave_thinker.backend.errors import SettingsError, TrainingError
from interleave_thinker.tinyworld.lab.ablation.findings import compare, findings_of, not_as_published
from interleave_thinker.tinyworld.lab.ablation.outcomes import joined, note_commit, outcomes_in, read_report
from interleave_thinker.tinyworld.lab.ablation.pipeline import ROWS, all_jobs, measured, seed_folder
from interleave_thinker.tinyworld.lab.ablation.run import as_markdown, as_svg
from interleave_thinker.tinyworld.lab.ablation.settings import AblationSettings
from interleave_thinker.training.statistics import paired_difference


def test_the_table_shows_the_outcomes(tmp_path: Path) -> None:
    settings = AblationSettings(seeds=3)
    write_seeds(tmp_path, settings)
    found = findings_of(outcomes_in(tmp_path, settings, "the command", "0123456789abcdef"))
    rows = {row.name: row for row in found.rows}
    assert list(rows) == list(ROWS) and rows["rl"].stories[3].n == 300
    against = rows["rl"].against_baseline
    assert against is not None and against.baseline == "sft" and against.p_stories < 1e-6
    assert against.difference.low > 0.1 and against.p_seeds == pytest.approx(2 / 8)
    assert against.published == pytest.approx(1.8) and len(against.of_each_seed) == 3
    assert rows["alone"].against_baseline is None and list(rows["alone"].stories) == [1]
    accuracy = rows["rl"].accuracy
    assert accuracy is not None and accuracy.rate == pytest.approx(49 / 50)
    assert found.next_steps_right.rate == pytest.approx(2 / 3)
    assert found.remedies[0].row == "rl" and found.remedies[0].difference.n == 120
    assert found.remedies[0].difference.mean == pytest.approx(0.75)
    wrong_way = {(one.row, one.baseline) for one in found.not_as_published}
    assert ("sft", "planner_sft") in wrong_way, "0.5 and 0.7 here, 64.5 and 60.5 in the paper"
    assert ("rl", "sft") not in wrong_way and not any("oracle" in name for pair in wrong_way for name in pair)
    text = as_markdown(found)
    assert all(row.title in text for row in ROWS.values()) and "the command" in text
    assert "Not as published" in text and "| 66.3 |" in text
    picture = ElementTree.fromstring(as_svg(found))
    assert sum(element.tag.endswith("circle") for element in picture.iter()) > len(ROWS)
    assert found.minutes_by_job["plans"] == 4.5 and found.minutes_in_all == 9.0


def test_seeds_of_two_machines_form_one_table(tmp_path: Path) -> None:
    together = AblationSettings(seeds=2)
    parts = [AblationSettings(seeds=1, first_seed=seed) for seed in range(2)]
    for part in parts:
        write_seeds(tmp_path, part)
    whole = findings_of(outcomes_in(tmp_path, together, "at once", "0123"))
    reports = []
    for part in parts:
        found = findings_of(outcomes_in(tmp_path, part, f"seed {part.first_seed}", "0123"))
        reports.append(tmp_path / f"{part.first_seed}.json")
        reports[-1].write_text(found.model_dump_json(indent=2))
    last, first = (read_report(path) for path in reversed(reports))
    both = findings_of(joined([last, first]))
    assert both.rows == whole.rows and both.remedies == whole.remedies
    assert both.outcomes.settings == together and both.minutes_in_all == whole.minutes_in_all
    assert "seeds 0 at commit" in as_markdown(both) and "seeds 1 at commit" in as_markdown(both)
    with pytest.raises(SettingsError, match="seeds occur in more than one run: 0"):
        joined([first, first])
    other = last.model_copy(update={"settings": AblationSettings(rollouts=7)})
    with pytest.raises(SettingsError, match=r"rollouts \(24 and 7\)"):
        joined([first, other])


def test_a_report_of_release_0_3_0_gives_its_table() -> None:
    """It has rows and a setting that no longer exist."""
    stored = Path(__file__).parents[3] / "docs" / "ablation.json"
    rows = {row.name: row.stories[max(row.stories)].mean for row in findings_of(read_report(stored)).rows}
    then = {row["name"]: row["stories"] for row in json.loads(stored.read_text())["rows"]}
    assert rows == {name: then[name][max(then[name], key=int)]["mean"] for name in ROWS}


LACKING = json.dumps(
    {
        "outcomes": {
            "settings": {},
            "made": [],
            "seeds": [
                {"seed": 0, "told": {}, "judged": {}, "refined": {}, "next_steps": "", "exact_plans": {}}
                | {"minutes": {}}
            ],
        }
    }
)


@pytest.mark.parametrize("text", ["{}", "[]", '{"outcomes": {"seeds": 3}}', "no json", LACKING])
def test_an_invalid_report_is_a_clear_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ablation.json"
    path.write_text(text)
    with pytest.raises(SettingsError, match=r"ablation\.json"):
        read_report(path)


def test_rows_are_compared_on_their_common_stories() -> None:
    few = compare("untrained", "alone", [[True], [True, False]], [[False, True], [False, False, True]])
    assert few.difference.n == 3 and few.of_each_seed == [1.0, 0.5]
    assert few.published == pytest.approx(29.9)


def test_equal_outcomes_still_have_an_interval() -> None:
    same = compare("rl", "sft", [[True] * 20] * 2, [[True] * 20] * 2).difference
    assert same.mean == 0 and -0.1 < same.low < 0 < same.high < 0.1
    ever = compare("rl", "sft", [[True] * 20] * 2, [[False] * 20] * 2).difference
    assert ever.mean == 1 and 0.8 < ever.low < 1


def test_a_difference_interval_can_be_below_zero_without_a_lost_story() -> None:
    """Each seed's share of won stories differs, so the mean of more seeds could be anything."""
    apart = compare("rl", "sft", [[True] * 40, [False] * 40], [[False] * 40] * 2).difference
    assert apart.mean == 0.5 and apart.low == -1.0 and apart.high == 1.0


def test_full_sft_attempts_are_not_compared_with_the_papers_full_rl(tmp_path: Path) -> None:
    settings = AblationSettings(seeds=2)
    write_seeds(tmp_path, settings)
    by_attempts = findings_of(outcomes_in(tmp_path, settings, "", "0")).tries
    assert [one.published for one in by_attempts["sft"]] == [None, None]
    assert [one.published for one in by_attempts["rl"]] == [pytest.approx(5.1), pytest.approx(1.0)]


def test_commits_are_those_that_worked_at_a_seed(tmp_path: Path) -> None:
    settings = AblationSettings(seeds=2)
    write_seeds(tmp_path, settings)
    for job in all_jobs(tmp_path, settings):
        job.folder.mkdir(parents=True, exist_ok=True)
        (job.folder / "done.json").write_text("{}")
    unfinished = measured(seed_folder(tmp_path, 1), "alone") / "done.json"
    kept = unfinished.read_text()
    unfinished.unlink()
    for commit in ("a" * 40, "a" * 40, "b" * 40):
        note_commit(tmp_path, settings, commit)
    unfinished.write_text(kept)
    note_commit(tmp_path, settings, "c" * 40)
    found = findings_of(outcomes_in(tmp_path, settings, "the command", "c" * 40))
    text = as_markdown(found)
    assert f"seeds 0 at commit {'c' * 12} by" in text
    assert f"seeds 1 at commit {'a' * 12} and {'b' * 12} by" in text
    (seed_folder(tmp_path, 1) / "commits.txt").write_text("root:x:0:0")
    with pytest.raises(TrainingError, match="not a list of commits"):
        outcomes_in(tmp_path, settings, "the command", "c" * 40)


def test_an_order_that_is_the_papers_is_not_listed() -> None:
    names = [name for name, row in ROWS.items() if row.published is not None]
    ordered = sorted(names, key=lambda name: ROWS[name].published or 0)
    right = {name: [[True] * place + [False] * (20 - place)] * 2 for place, name in enumerate(ordered, 1)}
    assert not not_as_published(right, [])
    listed = not_as_published({**right, "rl": right["alone"]}, [])
    assert {one.row for one in listed} == {"rl"} and len(listed) == len(names) - 2


def test_paired_shares() -> None:
    ones, others = [True] * 15 + [False] * 85, [False] * 10 + [True] * 5 + [False] * 85
    found = paired_difference(ones, others)
    assert found.difference == pytest.approx(0.10) and found.n == 100
    assert found.p == pytest.approx(2 * 0.5**10)
    assert found.low == pytest.approx(0.10 - 1.959964 * (10 - 1) ** 0.5 / 100)
    assert paired_difference([True], [True]).p == 1.0
    with pytest.raises(ValueError, match="1 cases against 2"):
        paired_difference([True], [True, False])
