"""`data inspect` shows the content of valid and invalid row files."""

from __future__ import annotations

import json
from pathlib import Path

from support.made_runs import grey_page

from interleave_thinker.backend.answers.reading import write_plan, write_verdict
from interleave_thinker.backend.types import Plan, Step, Verdict
from interleave_thinker.training.data.pack.inspect import inspect, write_samples


def test_inspect_counts_and_shows_rows(tmp_path: Path) -> None:
    grey_page(9).image.save(tmp_path / "a.png")
    plan = write_plan(Plan(steps=(Step(number=1, prompt="a boat"), Step(number=2, prompt="a sun"))))
    wrong = write_verdict(Verdict(success=False, refined_prompt="<b>red</b>"))

    def row(answer: str, *images: str) -> dict[str, object]:
        turns = [
            {"role": "user", "content": "<image>" * len(images)},
            {"role": "assistant", "content": answer},
        ]
        return {"messages": turns, "images": list(images)}

    rows = [row(plan), row(wrong, "a.png", "gone.png"), row("?", "../../etc/passwd"), 7, {"messages": 3}]
    (tmp_path / "mixed.json").write_text(json.dumps(rows))
    redraw = {"edited_image_path": "a.png", "evaluation": {"success": True}}
    (tmp_path / "critic_rl.jsonl").write_text(json.dumps(redraw) + "\n")
    lines, found = inspect(tmp_path, samples=9)
    cells = {line.split(" | ")[0].strip("| "): line.strip("| ").split(" | ") for line in lines[2:]}
    assert cells["mixed.json"][1:5] == ["5", "2", "3", "2"]
    assert cells["mixed.json"][-4:] == ["0", "1", "1", "2.0"]
    assert cells["critic_rl.jsonl"][-4:-2] == ["1", "0"]
    write_samples(tmp_path / "page.html", found)
    page = (tmp_path / "page.html").read_text()
    assert page.count("<section>") == 6 and page.count("<img ") == 2
    assert "<b>red" not in page and "passwd is missing" in page
