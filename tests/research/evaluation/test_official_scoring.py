"""Scoring by evaluators in child processes: small ones with the structure of the official ones."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.benchmark_runs import collected
from support.cli_calls import call

from interleave_thinker import ChatError, InterleaveError, Message, Reply, ReplySettings, SettingsError
from interleave_thinker.research.benchmarks.benchmark import EvaluatorJob
from interleave_thinker.research.benchmarks.comm import Comm
from interleave_thinker.research.benchmarks.rise import Rise
from interleave_thinker.research.benchmarks.wise import Wise
from interleave_thinker.research.evaluation import judge_bridge as judging
from interleave_thinker.research.evaluation.judge_bridge import BenchmarkJudge, JudgeUnavailable
from interleave_thinker.research.evaluation.official_scoring import (
    EvaluatorError,
    EvaluatorProcesses,
    OfficialScoring,
    score_officially,
)
from interleave_thinker.research.evaluation.scores import BenchmarkScores

EVALUATOR = """
import argparse, json, os, sys, time, urllib.request
parser = argparse.ArgumentParser()
for name in ("json_path", "image_dir", "output_dir", "api_key", "api_base", "model", "result_full",
             "result_scores", "max_workers", "timeout"):
    parser.add_argument("--" + name)
args = parser.parse_args()
os.makedirs(args.output_dir, exist_ok=True)
with open(os.path.join(args.output_dir, "seen.json"), "w") as file:
    json.dump({"environment": dict(os.environ), "cwd": os.getcwd(), "pid": os.getpid(),
               "command": open("/proc/self/cmdline").read() if os.path.exists("/proc/self") else "",
               "key": args.api_key}, file)
with open(args.json_path) as file:
    rows = json.load(file)
print("judging")
scores = []
for row in rows:
    assert os.path.exists(f"{args.image_dir}/{row['prompt_id']}.png")
    text = f"Score: 0 or Score: 1. {row['Prompt']}"
    body = {"messages": [{"role": "user", "content": text}], "model": args.model}
    MOOD
    request = urllib.request.Request(args.api_base + "/chat/completions", json.dumps(body).encode(),
        {"content-type": "application/json", "authorization": "Bearer " + args.api_key})
    while True:
        try:
            with urllib.request.urlopen(request) as response:
                answer = json.load(response)["choices"][0]["message"]["content"]
            scores.append({"prompt_id": row["prompt_id"], "score": int(answer.split()[1])})
            break
        except (OSError, ValueError, IndexError):
            time.sleep(0.01)
with open(os.path.join(args.output_dir, args.result_scores), "w") as file:
    file.writelines(json.dumps(row) + "\\n" for row in scores)
"""


class Words:
    """A chat with fixed answers; after `stop_after` answers this process gets SIGINT."""

    identity, prompt_set = "words", None

    def __init__(self, text: str | ChatError = "Score: 1", stop_after: int = 0) -> None:
        self.text, self.stop_after, self.answers = text, stop_after, 0

    def reply(self, messages: Sequence[Message], settings: ReplySettings, on_token=None) -> Reply:
        self.answers += 1
        if self.answers == self.stop_after:
            threading.Timer(0.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        if isinstance(self.text, ChatError):
            raise self.text
        return Reply(text=self.text)


class Accepting:
    """A judge that accepts this share of all questions, in the format of the question."""

    prompt_set = None

    def __init__(self, rate: float) -> None:
        self.rate, self.identity = rate, f"fake:{rate:g}"

    def reply(self, messages: Sequence[Message], settings: ReplySettings, on_token=None) -> Reply:
        text = "\n".join(part for one in messages for part in one.content if isinstance(part, str))
        number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
        form = next(form for mark, form in FORMS.items() if mark in text)
        return Reply(text=form(number / 2**64 < self.rate))


def comm_answer(accepts: bool) -> str:
    points = {"Justification": "", "Score": 10 * accepts}
    names = ("style_consistency", "entity_consistency", "trend_consistency", "overall_consistency")
    coherence = {"overall_score": dict.fromkeys(names, 10 * accepts)}
    return json.dumps(
        {"scores": {"Image_Coherence": coherence, "Completeness": points, "Image_Quality": points}}
    )


FORMS = {
    "Image_Coherence": comm_answer,
    "Final Score": lambda accepts: f"**Final Score:** **{5 if accepts else 1}**",
    "Score: 0": lambda accepts: f"Score: {int(accepts)}",
}


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return collected("wise", tmp_path_factory.mktemp("wise")).parent


@pytest.fixture
def out(once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(Wise, "needs", ("json",))
    shutil.copytree(once / "out", tmp_path / "out")
    return tmp_path / "out"


def checkout(folder: Path, mood: str = "pass") -> Path:
    folder.mkdir()
    (folder / "vllm_eval.py").write_text(EVALUATOR.replace("MOOD", mood))
    (folder / "calculate_verified.py").write_text("")
    return folder


def scored(out: Path, official: OfficialScoring, chat: Words) -> tuple[BenchmarkScores, BenchmarkJudge]:
    judges: list[BenchmarkJudge] = []

    def judge() -> BenchmarkJudge:
        judges.append(BenchmarkJudge(chat, out / "answers.sqlite"))
        return judges[-1]

    found = score_officially(out, official, judge, lambda line: None)
    return found, judges[-1]


def test_an_evaluator_is_cached(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    here = checkout(tmp_path / "wise")
    before = {path: path.read_bytes() for path in here.rglob("*")}
    monkeypatch.setattr(
        judging,
        "open_judge",
        lambda spec, answers, deadline: BenchmarkJudge(Accepting(0.5), answers, deadline),
    )
    line = ["benchmark", "score", str(out), "--official", str(here), "--judge", "half"]
    lines = call(*line).output
    assert "9 questions sent to the judge, 0 answered from the cache" in lines
    assert "judge: fake:0.5" in lines and "of 9 items" in lines
    first = json.loads((out / "scores.json").read_text())
    assert 0 < sum(one["right"] for one in first["values"].values()) < 9
    assert first["judged"]["judge"] == "fake:0.5"
    again = call(*line).output
    assert "0 questions sent to the judge, 9 answered from the cache" in again
    assert json.loads((out / "scores.json").read_text()) == first
    assert {path: path.read_bytes() for path in here.rglob("*")} == before, "nothing of a checkout changes"
    seen = json.loads((out / "official" / "results" / "seen.json").read_text())
    assert "sk-very-secret" not in json.dumps(seen)
    assert seen["environment"]["HOME"] != os.environ.get("HOME")
    assert seen["key"].isalnum(), "an argument that begins with a dash is taken for an option"
    assert seen["key"] not in seen["command"], "a process list does not show the key"
    log = (out / "official" / "evaluator.log").read_text()
    assert "judging" in log and seen["key"] not in log + lines


def test_child_processes_of_a_job_end_with_it(tmp_path: Path) -> None:
    """The number of a process that has ended can belong to another one later."""
    leaves = "import subprocess\nprint(subprocess.Popen(['sleep', '600']).pid, file=open('../left', 'w'))\n"
    waits = """import os, pathlib, time
for _ in range(3000):
    left = pathlib.Path("../left")
    if left.exists() and (pid := left.read_text().strip()):
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            raise SystemExit(0)
        stat = pathlib.Path(f"/proc/{pid}/stat")
        if stat.exists() and "Z" in stat.read_text().rpartition(")")[2][:3]:
            raise SystemExit(0)
    time.sleep(0.01)
raise SystemExit("it runs on")
"""
    jobs = []
    for name, content in (("leaves", leaves), ("waits", waits)):
        (tmp_path / f"{name}.py").write_text(content)
        jobs.append(EvaluatorJob(tmp_path / f"{name}.py", [], tmp_path / "in"))
    EvaluatorProcesses(tmp_path, seconds=60.0).run(jobs)


@pytest.mark.parametrize(
    ("mood", "chat", "kind", "words"),
    [
        ("raise RuntimeError('no images today')", Words(), EvaluatorError, "status 1: .*no images today"),
        ("time.sleep(600)", Words(), EvaluatorError, "has not asked a question for 1 s"),
        ("pass", Words(ChatError("It is down.")), JudgeUnavailable, "The judge failed: It is down"),
        (
            "pass",
            Words("Who knows"),
            JudgeUnavailable,
            "could not read the judge's answers, such as 'Who knows'",
        ),
    ],
)
def test_failures_give_a_one_line_error_and_end_all_processes(
    out: Path, tmp_path: Path, mood: str, chat: Words, kind: type[InterleaveError], words: str
) -> None:
    with pytest.raises(kind, match=words) as caught:
        scored(out, OfficialScoring(checkout(tmp_path / "wise", mood), silence=1.0), chat)
    assert "\n" not in str(caught.value)
    seen = json.loads((out / "official" / "results" / "seen.json").read_text())
    assert not is_alive(seen["pid"])
    assert not (out / "scores.json").exists()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Enable Ctrl-C: a shell starts background processes with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_interrupted_scoring_continues_from_cached_answers(out: Path, tmp_path: Path) -> None:
    official = OfficialScoring(checkout(tmp_path / "wise"))
    with pytest.raises(KeyboardInterrupt):
        scored(out, official, Words(stop_after=4))
        time.sleep(10)
    seen = json.loads((out / "official" / "results" / "seen.json").read_text())
    assert not is_alive(seen["pid"])
    rest = Words()
    found, judge = scored(out, official, rest)
    assert rest.answers < 9 and rest.answers == judge.asked and found.unscored == 0


def test_a_child_ends_with_its_parent(tmp_path: Path) -> None:
    script = tmp_path / "forever.py"
    script.write_text("import time\nprint('here', flush=True)\ntime.sleep(600)\n")
    processes = EvaluatorProcesses(tmp_path)
    with processes.log.open("ab") as log:
        child = processes._started(EvaluatorJob(script, [], tmp_path), log)
    while "here" not in processes.log.read_text():
        assert child.poll() is None
        time.sleep(0.01)
    assert child.stdin is not None
    child.stdin.close()
    assert child.wait(30) != 0


def test_missing_packages_are_named(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = checkout(tmp_path / "wise")
    monkeypatch.setattr(Wise, "needs", ("json", "google.nowhere", "nowhere"))
    with pytest.raises(SettingsError, match=r"packages that .* does not have: google.nowhere, nowhere"):
        scored(out, OfficialScoring(here), Words())
    for python in (str(tmp_path / "no-python"), "/bin/false"):
        with pytest.raises(SettingsError, match=r"no-python|does not work"):
            scored(out, OfficialScoring(here, python), Words())
    with pytest.raises(SettingsError, match=r"not a checkout of PKU-YuanGroup/WISE: vllm_eval.py is missing"):
        scored(out, OfficialScoring(tmp_path), Words())
    refused = call("benchmark", "score", str(out), "--official", str(here))
    assert refused.exit_code == 2 and "belong together" in refused.output


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return sys.platform != "linux" or "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]


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


def scored_by_stand_in(out: Path, checkout: Path) -> BenchmarkScores:
    answers = out / "answers.sqlite"
    return score_officially(
        out, OfficialScoring(checkout), lambda: BenchmarkJudge(Accepting(1), answers), lambda line: None
    )


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def test_rise_gets_its_constants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rise, "needs", ())
    out = collected("rise", tmp_path / "rise")
    checkout = written(tmp_path / "checkout", {"gpt_eval.py": RISE, "utils.py": ASK})
    found = scored_by_stand_in(out, checkout)
    assert found.judged is not None
    assert found.judged.official == {"score": 100.0, "accuracy": 1.0}
    assert found.unscored == 1, "unreadable values count in the mean"
    assert sorted(one["score"] for one in found.values.values()) == [0.0] + [1.0] * 7
    written(checkout, {"gpt_eval.py": "api_key = 1\ndef main(): pass\n"})
    with pytest.raises(EvaluatorError, match=r"does not define api_base .unsupported version"):
        scored_by_stand_in(out, checkout)


def test_comm_is_judged_item_by_item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Comm, "needs", ())
    out = collected("comm", tmp_path / "comm")
    checkout = written(tmp_path / "checkout", COMM)
    found = scored_by_stand_in(out, checkout)
    assert found.judged is not None
    assert found.judged.official == {"task3 completeness": 10.0, "task4 completeness": 10.0}
    assert found.unscored == 0
    assert all(one["completeness"] == 1.0 for one in found.values.values())
    written(checkout, {"eval/tot_metric/gpt4o_eval.py": "api_key = 'mine'\n"})
    with pytest.raises(EvaluatorError, match="does not contain the line 'api_key = None'"):
        scored_by_stand_in(out, checkout)
