"""Runs the published data readers from a checkout on the output of `data pack --as published`.

    python -m benchmarks.published_tree RUNS CHECKOUT --prompts prompts.jsonl --python PUBLISHED/bin/python

Each runs unchanged in a separate process with the packed tree as its folder: the two builders of interleaved
sequences, the reader of critic_rl.jsonl, and the functions of the data scripts that read a prompt list and
report which samples are done. The data scripts ask for keys and models when they are loaded, so only these
functions are extracted. Fine-tuning reads through LLaMA-Factory, which the checkout does not include: rows
are compared with its description there (dataset_info.json), and passed to the reader itself with
--llama-factory CHECKOUT.

`--python` needs the libraries of the published requirements (transformers 4.57, datasets, codetiming,
qwen-vl-utils). The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from interleave_thinker.backend.loop.replay import load_trajectory
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.prompts import default_prompt_set
from interleave_thinker.tinyworld.runtime import checkpoint
from interleave_thinker.training.data.from_runs.convert import RunConverter
from interleave_thinker.training.data.from_runs.run_folders import find_runs
from interleave_thinker.training.data.from_runs.settings import FilterData
from interleave_thinker.training.data.pack.pack import Packing
from interleave_thinker.training.data.pack.settings import CardData
from interleave_thinker.training.data.planner_rows.make import PlannerRows
from interleave_thinker.training.data.planner_rows.settings import PlannerRowsData
from interleave_thinker.training.data.sequences.build import easy, hard, unfit

SECONDS = 900
TREE = Path("InterleaveThinker/Train-Data")
SCRIPTS = {"easy": "interleave_easy.py", "hard": "interleave_reflection.py"}

READ_RL = """
import json, sys
sys.path.insert(0, sys.argv[1])
from transformers import AutoProcessor
from verl.utils.dataset import RLHFDataset, collate_fn
processor = AutoProcessor.from_pretrained(sys.argv[2], local_files_only=True)
data = RLHFDataset(
    sys.argv[3], processor.tokenizer, processor, answer_key="evaluation", image_dir=".",
    max_prompt_length=16384, truncation="right", min_pixels=3136, max_pixels=1048576,
    filter_overlong_prompts=True, filter_overlong_prompts_workers=1,
)
rows = [data[number] for number in range(len(data))]
batch = collate_fn(rows)
print(json.dumps([
    {"truth": {name: row["ground_truth"][name] for name in ("success", "semantics", "quality")},
     "prompts": [row["origin_prompt"], row["rewritten_prompt"]], "images": row["multi_modal_data"]["images"]}
    for row in rows
]))
"""
READ_SCRIPT = """
import json, os, re, sys
source = open(sys.argv[1], encoding="utf-8").read()
wanted = ("get_completed_samples", "sanitize_for_path", "load_dataset", "is_sample_completed")
parts = re.split(r"(?m)^(?=\\S)", source)
names = {"os": os, "json": json, "re": re, "SAVE_FILE": sys.argv[2]}
for part in parts:
    if part.startswith(tuple(f"def {name}(" for name in wanted)):
        exec(compile(part, sys.argv[1], "exec"), names)
rows = names["load_dataset"](sys.argv[3])
if "is_sample_completed" in names:
    done = sum(names["is_sample_completed"](row, sys.argv[2]) for row in rows)
else:
    there = names["get_completed_samples"](sys.argv[2])
    done = sum(f"{row['id']}_{names['sanitize_for_path'](row['user_input'])}" in there for row in rows)
print(json.dumps({"rows": len(rows), "done": done}))
"""
READ_SFT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from llamafactory.data.converter import get_dataset_converter
from llamafactory.data.parser import DatasetAttr
from llamafactory.hparams import DataArguments
info = json.loads(sys.argv[2])
attr = DatasetAttr("file", dataset_name="rows")
attr.join(info)
converter = get_dataset_converter(attr.formatting, attr, DataArguments(media_dir="."))
rows = [converter(row) for row in json.load(open(sys.argv[3], encoding="utf-8"))]
print(json.dumps([{"turns": len(row["_prompt"]), "answers": len(row["_response"]), "images": row["_images"]}
                  for row in rows]))
"""


def run(python: Path, script: str, folder: Path, *arguments: object) -> Any:
    """Run a script in a folder and return its JSON output."""
    told = [str(python), "-c", script, *map(str, arguments)]
    done = subprocess.run(told, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        raise SystemExit(done.stderr[-4000:])
    return json.loads(done.stdout.strip().splitlines()[-1])


def packed(runs: Path, place: Path) -> Path:
    """Convert these runs to rows and pack them."""
    quiet = {"log": lambda line: None}
    settings = FilterData(rl_share=0.2)
    from interleave_thinker.backend.scorers import open_scorer

    RunConverter(settings, default_prompt_set(), open_scorer("tinyworld"), **quiet).convert(
        [runs], place / "critic"
    )
    PlannerRows(PlannerRowsData(), default_prompt_set(), **quiet).make([runs], place / "planner")
    packing = Packing("published", CardData(), [runs], **quiet)
    packing.pack([place / "critic", place / "planner"], place / "packed")
    return place / "packed"


def sequences(python: Path, checkout: Path, runs: Path, tree: Path) -> dict[str, Any]:
    """Compare the rows of the published builders on the packed tree with ours.

    Texts must be identical, and images must have the same content.
    """
    whole = [load_trajectory(folder) for folder, _ in find_runs([runs])]
    whole = [one for one in whole if not unfit(one)]
    figures: dict[str, Any] = {"ours": len(whole)}
    for name, build in (("easy", easy), ("hard", hard)):
        ours = set()
        for one in whole:
            row, given = build(one, quirks=True), len(one.request.images)
            ours.add((one.request.text, row.text, tuple(picture.digest for picture in row.images[given:])))
        script = (checkout / "data_gen" / SCRIPTS[name]).resolve()
        subprocess.run([str(python), str(script)], cwd=tree, check=True, timeout=SECONDS, capture_output=True)
        (made,) = tree.glob("interleaved_gen_*.json")
        rows = json.loads(made.read_text(encoding="utf-8"))
        made.unlink()
        for row in rows:
            texts = [turn["content"] for turn in row["messages"]]
            digests = tuple(Picture.open(tree / image).digest for image in row["images"])
            assert (*texts, digests) in ours, f"{name}: {texts}"
        figures[name] = {"published": len(rows), "equal": len(rows)}
    return figures


def rl_rows(python: Path, checkout: Path, tree: Path, place: Path) -> dict[str, int]:
    """Compare critic_rl.jsonl with the rows that the published reader returns."""
    model = shutil.copytree(
        checkpoint("critic"), place / "processor", ignore=shutil.ignore_patterns("*.safetensors")
    )
    config = json.loads((model / "tokenizer_config.json").read_text())
    config.pop("extra_special_tokens", None)  # a list here, which their version of transformers cannot read
    (model / "tokenizer_config.json").write_text(json.dumps(config))
    found = run(python, READ_RL, tree, (checkout / "train/EasyR1").resolve(), model, TREE / "critic_rl.jsonl")
    rows = [json.loads(line) for line in (tree / TREE / "critic_rl.jsonl").read_text().splitlines()]
    assert len(found) == len(rows)
    for theirs, row in zip(found, rows, strict=True):
        assert theirs["truth"] == {name: row["evaluation"][name] for name in theirs["truth"]}
        assert theirs["prompts"] == [row["origin_prompt"], row["rewritten_prompt"]]
        assert all((tree / image).is_file() for image in theirs["images"])
    return {"rows": len(rows), "from_text": sum("data/interleave/white.png" in str(row) for row in rows)}


def sft_rows(checkout: Path, tree: Path, reader: tuple[Path, Path] | None) -> dict[str, Any]:
    """Compare fine-tuning rows with their description in the checkout, and read them with its reader."""
    infos = json.loads((checkout / "train/LLaMA-Factory/data/dataset_info.json").read_text())
    figures: dict[str, Any] = {}
    for info in infos.values():
        file = TREE / Path(info["file_name"]).name
        rows = json.loads((tree / file).read_text(encoding="utf-8"))
        columns, tags = info["columns"], info["tags"]
        for row in rows:
            turns = row[columns["messages"]]
            roles = [turn[tags["role_tag"]] for turn in turns]
            assert roles == [tags["user_tag"], tags["assistant_tag"]] * (len(turns) // 2)
            marks = sum(turn[tags["content_tag"]].count("<image>") for turn in turns)
            assert marks == len(row[columns["images"]])
            assert all((tree / image).is_file() for image in row[columns["images"]])
        figures[file.name] = {"rows": len(rows)}
        if reader is not None:
            read = run(reader[0], READ_SFT, tree, reader[1].resolve() / "src", json.dumps(info), file)
            assert [one["turns"] for one in read] == [1] * len(rows)
            assert [one["answers"] for one in read] == [1] * len(rows)
            for one, row in zip(read, rows, strict=True):
                assert [Path(image) for image in one["images"] or []] == [
                    Path(image) for image in row["images"]
                ]
            figures[file.name]["read"] = len(read)
    return figures


def main() -> None:
    """Pack, read and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--prompts", type=Path)
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--llama-factory", type=Path)
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        tree = packed(options.runs, place)
        figures["sequences"] = sequences(options.python, options.checkout, options.runs, tree)
        figures["critic_rl.jsonl"] = rl_rows(options.python, options.checkout, tree, place)
        reader = (options.python, options.llama_factory) if options.llama_factory else None
        figures |= sft_rows(options.checkout, tree, reader)
        for name in ("nano", "klein", "qwen") if options.prompts else ():
            script = (options.checkout / "data_gen" / f"{name}_data.py").resolve()
            saved = tree / TREE / "Klein_data"
            figures[script.name] = run(
                options.python, READ_SCRIPT, place, script, saved, options.prompts.resolve()
            )
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
