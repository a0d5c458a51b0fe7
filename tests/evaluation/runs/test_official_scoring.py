"""Scoring by an evaluator in a child process, with a small one that is called like WISE's."""

from __future__ import annotations

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
from support.cli_calls import call
from support.collected_benchmark import collected

from interleave_thinker.backend.chat.protocol import Message, Reply, ReplySettings
from interleave_thinker.backend.errors import ChatError, InterleaveError, SettingsError
from interleave_thinker.evaluation.benchmarks.base.processes import (
    EvaluatorError,
    EvaluatorJob,
    EvaluatorProcesses,
)
from interleave_thinker.evaluation.benchmarks.wise.official import WiseEvaluator
from interleave_thinker.evaluation.judges import BenchmarkJudge
from interleave_thinker.evaluation.judges.bridge import JudgeUnavailable
from interleave_thinker.evaluation.runs import official_scoring as scoring
from interleave_thinker.evaluation.runs.official_scoring import OfficialScoring, score_officially

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


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return collected("wise", tmp_path_factory.mktemp("wise")).parent


@pytest.fixture
def out(once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(WiseEvaluator, "needs", ("json",))
    shutil.copytree(once / "out", tmp_path / "out")
    return tmp_path / "out"


def checkout(folder: Path, mood: str = "pass") -> Path:
    folder.mkdir()
    (folder / "vllm_eval.py").write_text(EVALUATOR.replace("MOOD", mood))
    (folder / "calculate_verified.py").write_text("")
    return folder


def scored(
    out: Path, official: OfficialScoring, chat: Words
) -> tuple[scoring.BenchmarkScores, BenchmarkJudge]:
    judges: list[BenchmarkJudge] = []

    def judge() -> BenchmarkJudge:
        judges.append(BenchmarkJudge(chat, out / "answers.sqlite"))
        return judges[-1]

    found = score_officially(out, official, judge, lambda line: None)
    return found, judges[-1]


def test_an_evaluator_runs_unchanged_and_is_cached(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    here = checkout(tmp_path / "wise")
    before = {path: path.read_bytes() for path in here.rglob("*")}
    command = ["benchmark", "score", str(out), "--official", str(here), "--judge", "fake:0.5"]
    lines = call(*command).output
    assert "9 questions sent to the judge, 0 answered from the cache" in lines
    assert "judge: fake:0.5" in lines and "of 9 items" in lines
    first = json.loads((out / "scores.json").read_text())
    assert 0 < sum(one["right"] for one in first["values"].values()) < 9
    assert first["judged"]["judge"] == "fake:0.5"
    again = call(*command).output
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


def test_relative_paths_start_at_the_current_folder(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout(tmp_path / "wise")
    monkeypatch.chdir(tmp_path)
    python = os.path.relpath(sys.executable)
    found, _ = scored(Path("out"), OfficialScoring(Path("wise"), python), Words())
    assert found.unscored == 0
    environment = json.loads((out / "official" / "results" / "seen.json").read_text())["environment"]
    assert environment["HOME"] == environment["TMPDIR"] == str(out / "official" / "home")


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
        ("os.kill(os.getpid(), 9)", Words(), EvaluatorError, "signal SIGKILL: judging"),
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


def test_missing_requirements_are_reported(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = checkout(tmp_path / "wise")
    monkeypatch.setattr(WiseEvaluator, "needs", ("json", "google.nowhere", "nowhere"))
    with pytest.raises(SettingsError, match=r"packages that .* does not have: google.nowhere, nowhere"):
        scored(out, OfficialScoring(here), Words())
    for python in (str(tmp_path / "no-python"), "/bin/false"):
        with pytest.raises(SettingsError, match=r"no-python|does not work"):
            scored(out, OfficialScoring(here, python), Words())
    with pytest.raises(SettingsError, match=r"not a checkout of PKU-YuanGroup/WISE: vllm_eval.py is missing"):
        scored(out, OfficialScoring(tmp_path), Words())
    refused = call("benchmark", "score", str(out), "--official", str(here))
    assert "packages" in refused.output or "No judge" in refused.output


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return sys.platform != "linux" or "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]
