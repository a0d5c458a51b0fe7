"""Values set in evaluators in memory, tested with small evaluators of our own with the same structure."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.collected_benchmark import collected

from interleave_thinker.evaluation.benchmarks.base.processes import EvaluatorError
from interleave_thinker.evaluation.benchmarks.comm.official import CommEvaluator
from interleave_thinker.evaluation.benchmarks.rise.official import RiseEvaluator
from interleave_thinker.evaluation.judges import open_judge
from interleave_thinker.evaluation.runs.official_scoring import OfficialScoring, score_officially
from interleave_thinker.evaluation.runs.scores import BenchmarkScores

ASK = """
import json, os, urllib.request
def ask(address, key, text):
    body = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
    headers = {"content-type": "application/json", "authorization": "Bearer " + key}
    with urllib.request.urlopen(urllib.request.Request(address, body, headers)) as response:
        return json.load(response)["choices"][0]["message"]["content"]
"""
RISE = """
import argparse, json, os
from utils import *
api_key = 'YOUR_API_KEY'
api_base = 'YOUR_API_BASE'
class Table(list):
    def to_json(self, path, orient, lines):
        with open(path, "w") as file:
            file.writelines(json.dumps(row) + "\\n" for row in self)
def dump(data, path):
    open(path, "w").close()
def main():
    parser = argparse.ArgumentParser()
    for name in ("data", "output", "input", "model", "nproc"):
        parser.add_argument("--" + name)
    args = parser.parse_args()
    table = Table()
    for row in json.load(open(args.data)):
        assert os.path.exists(os.path.join(args.input, row["image"])) and "reasoning_img" in row
        assert os.path.exists(f"{args.output}/images/{row['category']}/{row['index']}.png")
        answer = ask(api_base, api_key, "1 to 5. Final Score? " + row["instruction"])
        points = int(answer.split("**")[3])
        unread = row["index"].endswith("_7")
        table.append({"index": row["index"], "complete": points // 5, "score": None if unread else points})
    dump({}, f"{args.output}/judge.pkl")
    dump(table, f"{args.output}/judge_judge.xlsx")
    with open(f"{args.output}/judge_judge.csv", "w") as file:
        file.write("-,Score-Origin,Score-Percentage,Accuracy\\nOverall,5,100.0,1.0\\nCausal,1,,0\\n")
"""
COMM = {
    "eval/utils.py": "NAME = 'evaluation_results.json'\n",
    "eval/eval_metric.py": """
import argparse, json, os, torch
from concurrent.futures import ThreadPoolExecutor
from .utils import NAME
from tot_metric import calculate_meteor, judged, split_token
def write(path, model):
    folder = os.path.join("./results", model, "/".join(path.split("/")[-3:]))
    os.makedirs(folder)
    with open(os.path.join(folder, NAME), "w") as file:
        json.dump(judged(path), file)
def main():
    parser = argparse.ArgumentParser()
    for name in ("predict_results_path", "model_type", "task_type", "ground_truth_path"):
        parser.add_argument("--" + name)
    args = parser.parse_args()
    truth = {one["data_id"] for one in torch.load(args.ground_truth_path)}
    pool = ThreadPoolExecutor(max_workers=20)
    for sample in sorted(os.listdir(args.predict_results_path)):
        if args.task_type in sample:
            assert sample[:-6] in truth
            pool.submit(write, os.path.join(args.predict_results_path, sample), args.model_type)
""",
    "eval/cal_gpt4o_score.py": """
import json, os
def cal_gpt4o_scores(path, model, task):
    folder = os.path.join("./results", model, "/".join(path.split("/")[-2:]))
    found = [json.load(open(f"{folder}/{one}/evaluation_results.json"))["completeness"]["Score"]
             for one in os.listdir(folder) if task in one]
    return {"completeness": sum(found) / len(found)}
""",
    "eval/tot_metric/METEOR.py": "raise ImportError('heavy')\n",
    "eval/tot_metric/__init__.py": "from .METEOR import calculate_meteor\n"
    "from .gpt4o_eval import judged\nsplit_token = '<IMAGE>'\n",
    "eval/tot_metric/gpt4o_eval.py": ASK
    + """
api_key = None
assert api_key is not None
prompt = open("./tot_metric/prompt.txt").read()
def judged(path):
    text = json.load(open(path + "/results.json"))["model_output"]
    found = ask(os.environ["OPENAI_BASE_URL"] + "/chat/completions", api_key, prompt + path[-12:] + text)
    scores = json.loads(found)["scores"]
    return {"coherence_score": scores["Image_Coherence"]["overall_score"],
            "completeness": scores["Completeness"], "image quality": scores["Image_Quality"],
            "text fidelity to images": scores["Completeness"]}
""",
    "eval/tot_metric/prompt.txt": "Image_Coherence\n",
}


def scored(out: Path, checkout: Path) -> BenchmarkScores:
    answers = out / "answers.sqlite"
    return score_officially(
        out, OfficialScoring(checkout), lambda: open_judge("fake:1", answers), lambda line: None
    )


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def test_rise_gets_its_constants_and_its_table_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RiseEvaluator, "needs", ())
    out = collected("rise", tmp_path / "rise")
    checkout = written(tmp_path / "checkout", {"gpt_eval.py": RISE, "utils.py": ASK})
    found = scored(out, checkout)
    assert found.judged is not None
    assert found.judged.official == {"score": 100.0, "accuracy": 1.0}
    assert found.unscored == 1, "unreadable values count in the mean"
    assert sorted(one["score"] for one in found.values.values()) == [0.0] + [1.0] * 7
    written(checkout, {"gpt_eval.py": "api_key = 1\ndef main(): pass\n"})
    with pytest.raises(EvaluatorError, match=r"does not define api_base .unsupported version"):
        scored(out, checkout)


def test_comm_is_judged_item_by_item_without_its_heavy_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CommEvaluator, "needs", ())
    out = collected("comm", tmp_path / "comm")
    checkout = written(tmp_path / "checkout", COMM)
    found = scored(out, checkout)
    assert found.judged is not None
    assert found.judged.official == {"task3 completeness": 10.0, "task4 completeness": 10.0}
    assert found.unscored == 0
    assert all(one["completeness"] == 1.0 for one in found.values.values())
    written(checkout, {"eval/tot_metric/gpt4o_eval.py": "api_key = 'mine'\n"})
    with pytest.raises(EvaluatorError, match="does not contain the line 'api_key = None'"):
        scored(out, checkout)
