"""Agents in GGUF: their files, the start and stop of their server, and its error messages."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from support import tiny_checkpoint
from support.fake_llama_server import MODEL, requests_of, starts_of, write_agent, write_program
from support.tiny_checkpoint import PLAIN, WATCH, page, question

from interleave_thinker import Critic, Plan, Planner, Request, Step, open_chat
from interleave_thinker.backend.core.answers.reading import write_plan
from interleave_thinker.backend.core.errors import Cancelled, ChatError, SettingsError
from interleave_thinker.backend.models.chat.grammars import answer_gbnf
from interleave_thinker.backend.models.chat.llamacpp_chat import LlamaCppChat, find_gguf

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")


def opened(
    folder: Path, fault: str = "none", text: str = tiny_checkpoint.ACCEPTED, **options: Any
) -> tuple[Any, Path]:
    program = write_program(folder, fault, text)
    model = write_agent(folder / "models")
    chat = open_chat(f"llamacpp:{model}", llama_server=str(program), **options)
    assert isinstance(chat, LlamaCppChat)
    return chat, program


def is_gone(process: int) -> bool:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            os.kill(process, 0)
            state = Path(f"/proc/{process}/stat")
            if state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


# Files


def test_an_agent_is_named_by_the_contents_of_its_files(tmp_path: Path) -> None:
    one = find_gguf(str(write_agent(tmp_path / "one")))
    moved = write_agent(tmp_path / "two")
    moved = moved.rename(moved.with_name("renamed.gguf"))
    assert find_gguf(str(moved)).digest == one.digest
    (moved.parent / "mmproj-tiny-F16.gguf").write_bytes(MODEL + b"another projector")
    assert find_gguf(str(moved)).digest != one.digest


@pytest.mark.parametrize(
    ("others", "model", "taken"),
    [
        (["mmproj-F32.gguf", "mmproj-F16.gguf", "mmproj-BF16.gguf"], "VL-Q4_K_M.gguf", "mmproj-F16.gguf"),
        (["mmproj-A-4B-F16.gguf", "mmproj-A-8B-F16.gguf"], "A-8B-UD-Q4_K_XL.gguf", "mmproj-A-8B-F16.gguf"),
        (["A-4B.mmproj-F16.gguf", "A-8B.mmproj-Q8_0.gguf"], "A-8B.Q8_0.gguf", "A-8B.mmproj-Q8_0.gguf"),
        (["mmproj-a-f16.gguf", "mmproj-b-f16.gguf"], "mine-q8_0.gguf", ""),
    ],
)  # fmt: skip
def test_a_projector_is_found_by_name(tmp_path: Path, others: list[str], model: str, taken: str) -> None:
    for name in (*others, model):
        (tmp_path / name).write_bytes(MODEL)
    if taken:
        assert find_gguf(str(tmp_path / model)).projector == tmp_path / taken
    else:
        with pytest.raises(ChatError, match=r"own folder, with its projector"):
            find_gguf(str(tmp_path / model))
    assert find_gguf(str(tmp_path / model), str(tmp_path / others[0])).projector == tmp_path / others[0]


def test_a_model_in_parts_is_its_first_part_and_needs_all(tmp_path: Path) -> None:
    (tmp_path / "mmproj.gguf").write_bytes(MODEL)
    for number in (1, 2):
        (tmp_path / f"m-{number:05}-of-00002.gguf").write_bytes(MODEL)
    assert len(find_gguf(str(tmp_path / "m-00001-of-00002.gguf")).parts) == 2
    with pytest.raises(ChatError, match="the first"):
        find_gguf(str(tmp_path / "m-00002-of-00002.gguf"))
    (tmp_path / "m-00002-of-00002.gguf").unlink()
    with pytest.raises(ChatError, match=r"has 1 of its 2 parts.*Download"):
        find_gguf(str(tmp_path / "m-00001-of-00002.gguf"))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("m.gguf", MODEL[:20], "damaged"),
        ("m.gguf", b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        ("no.gguf", None, "does not exist"),
        ("mmproj-m.gguf", MODEL, "not a GGUF model"),
    ],
)
def test_an_invalid_file_is_rejected(tmp_path: Path, name: str, content: bytes | None, said: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ChatError, match=said):
        find_gguf(str(tmp_path / name))


def test_a_model_of_text_alone_plans_requests_without_images(tmp_path: Path) -> None:
    program = write_program(tmp_path, text=tiny_checkpoint.ACCEPTED)
    model = write_agent(tmp_path / "models")
    (model.parent / "mmproj-tiny-F16.gguf").unlink()
    chat: Any = open_chat(f"llamacpp:{model}", llama_server=str(program))
    assert chat.server.files.projector is None and chat.server.size == model.stat().st_size
    with pytest.raises(ChatError, match=r"its projector is missing.*mmproj-"):
        chat.reply(question(200), PLAIN)
    with pytest.raises(SettingsError, match=r"cannot judge images.*mmproj"):
        Critic(chat)
    assert starts_of(program) == []
    assert Planner(chat).chat is chat
    assert chat.reply(question(), PLAIN).text == tiny_checkpoint.ACCEPTED
    ((_, arguments),) = starts_of(program)
    assert "--mmproj" not in arguments


# The server


def test_a_missing_server_raises_with_install_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = write_agent(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("LLAMA_SERVER", raising=False)
    with pytest.raises(SettingsError, match=r"llama-server.*github.com/ggml-org/llama.cpp"):
        open_chat(f"llamacpp:{model}")
    with pytest.raises(SettingsError, match=r"'llamacpp', option context=5"):
        open_chat(f"llamacpp:{model}", context=5)
    with pytest.raises(SettingsError, match=r"not an executable program.*LLAMA_SERVER"):
        open_chat(f"llamacpp:{model}", llama_server=str(model))


def test_the_server_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = write_program(tmp_path, text="Hello.")
    model = write_agent(tmp_path / "models")
    for name, value in (("LLAMA_SERVER", str(program)), ("PATH", f"{tmp_path}:{os.environ['PATH']}")):
        with monkeypatch.context() as only:
            only.delenv("LLAMA_SERVER", raising=False)
            only.setenv(name, value)
            assert open_chat(f"llamacpp:{model}").reply(question(200), PLAIN).text == "Hello."


def test_a_server_stops_with_its_last_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_ARG_HOST", "0.0.0.0")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody")
    chat, program = opened(tmp_path, threads=1, gpu_layers=0, context=4096)
    assert starts_of(program) == []
    assert chat.reply(question(200), WATCH).probability == pytest.approx(0.9, abs=0.02)
    other = open_chat(
        f"llamacpp:{tmp_path / 'models' / 'tiny-Q8_0.gguf'}", llama_server=str(program), threads=1,
        gpu_layers=0, context=4096,
    )  # fmt: skip
    assert other.reply(question(200), PLAIN).text == tiny_checkpoint.ACCEPTED
    ((process, arguments),) = starts_of(program)
    for name, value in (("-t", "1"), ("-ngl", "0"), ("-c", "4096"), ("--port", "0"), ("--device", "none")):
        assert arguments[arguments.index(name) + 1] == value
    key = chat.server.process.key
    assert len(key) > 30 and not any(key in argument for argument in arguments)
    assert key not in chat.server.process.last_lines() and key not in chat.identity
    del chat
    assert other.reply(question(200), PLAIN).text
    del other
    assert is_gone(process)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("dies", r"ended at its start.*failed to load model.*mmproj belong together"),
        ("no memory", r"out of memory.*Free VRAM"),
        ("other projector", r"mismatch between text model.*belongs to another model.*its mmproj file"),
        ("old", r"invalid argument.*Update llama\.cpp"),
        ("ends", r"ended during its answer.*GGML_ASSERT.*restarts it"),
        ("ends late", r"ended during its answer.*restarts it"),
    ],
)
def test_a_crashed_server_reports_its_last_lines(tmp_path: Path, fault: str, said: str) -> None:
    chat, _ = opened(tmp_path, fault)
    with pytest.raises(ChatError, match=said) as error:
        chat.reply(question(200), PLAIN)
    assert "\n" not in str(error.value)


def test_a_server_that_hangs_is_stopped_and_the_next_reply_has_a_new_one(tmp_path: Path) -> None:
    chat, program = opened(tmp_path, "never ready", start_seconds=0.8)
    with pytest.raises(ChatError, match=r"not ready within 0.8 s: .*loading"):
        chat.reply(question(200), PLAIN)

    def cancel(text: str) -> None:
        if len(starts_of(program)) == 2:
            raise Cancelled("stop")

    with pytest.raises(Cancelled):
        chat.reply(question(200), PLAIN, cancel)
    assert is_gone(starts_of(program)[1][0])
    (tmp_path / "mute").mkdir()
    chat, program = opened(tmp_path / "mute", "mute", timeout=1.0)
    for number in (1, 2):
        with pytest.raises(ChatError, match="did not answer and was stopped"):
            chat.reply(question(200), PLAIN)
        assert len(starts_of(program)) == number
        assert is_gone(starts_of(program)[-1][0])


def test_a_killed_program_leaves_no_server(tmp_path: Path) -> None:
    program = write_program(tmp_path, text="Hello.")
    model = write_agent(tmp_path / "models")
    code = textwrap.dedent(f"""
        import sys, time
        sys.path[:0] = {sys.path!r}
        import conftest
        from interleave_thinker.backend.models.chat import open_chat
        from support.tiny_checkpoint import PLAIN, question
        chat = open_chat("llamacpp:{model}", llama_server="{program}")
        chat.reply(question(200), PLAIN)
        print("ready", flush=True)
        time.sleep(600)
    """)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None and parent.stdout.readline() == b"ready\n"
        parent.send_signal(signal.SIGKILL)
    ((process, _),) = starts_of(program)
    assert is_gone(process)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems' kernels end no child with its parent")
def test_a_killed_supervisor_leaves_no_server(tmp_path: Path) -> None:
    """The supervisor and the program that started it are killed at the same time."""
    chat, program = opened(tmp_path)
    chat.reply(question(200), PLAIN)
    supervisor = chat.server.process.process_id
    os.kill(supervisor, signal.SIGKILL)
    ((process, _),) = starts_of(program)
    assert is_gone(process)


# What is sent


PLAN = write_plan(Plan(steps=(Step(number=1, prompt="a red boat"),)))


def after(arguments: list[str], name: str) -> str:
    return arguments[arguments.index(name) + 1]


def test_planner_critic_and_judge_of_one_model_have_a_slot_each(tmp_path: Path) -> None:
    chat, program = opened(tmp_path, text=PLAN)
    Planner(chat).plan(Request(text="a boat"))
    Critic(chat).judge(None, page(200), "a boat", "a boat")
    chat.reply(question(200), PLAIN)
    Planner(chat).plan(Request(text="another boat"))
    ((_, arguments),) = starts_of(program)
    bodies = requests_of(program)
    planner, critic, judge, again = (body["id_slot"] for body in bodies)
    assert all(body["cache_prompt"] is True for body in bodies)
    assert planner == again and len({planner, critic, judge}) == 3
    assert max(planner, critic, judge) < int(after(arguments, "--parallel"))
    assert "--kv-unified" in arguments and after(arguments, "-c") == "16384", "all of it for each reply"


def test_an_older_server_starts_with_one_slot(tmp_path: Path) -> None:
    chat, program = opened(tmp_path, "no slots")
    assert chat.reply(question(200), PLAIN).text == tiny_checkpoint.ACCEPTED
    ((_, arguments),) = starts_of(program)
    assert after(arguments, "--parallel") == "1" and "--kv-unified" not in arguments
    (body,) = requests_of(program)
    assert "id_slot" not in body and body["cache_prompt"] is True


@pytest.mark.parametrize(("fault", "thinking"), [("none", False), ("thinks", True)])
def test_a_constrained_reply_is_sent_its_grammar(tmp_path: Path, fault: str, thinking: bool) -> None:
    chat, program = opened(tmp_path, fault, PLAN)
    planner = Planner(chat, constrained_decoding="always")
    assert planner.unused_settings == ()
    assert planner.plan(Request(text="a boat")).steps[0].prompt == "a red boat"
    (body,) = requests_of(program)
    assert body["grammar"] == answer_gbnf("plan", thinking) and "response_format" not in body


def test_a_constrained_reply_ends_at_true_and_keeps_its_probability(tmp_path: Path) -> None:
    chat, _ = opened(tmp_path)
    held = chat.reply(question(200), WATCH.model_copy(update={"grammar": "verdict"}))
    assert (
        held.finish == "verdict"
        and held.text == tiny_checkpoint.ACCEPTED[: tiny_checkpoint.ACCEPTED.index(", ") + 1]
    )
    assert held.probability == pytest.approx(0.9, abs=0.02)
    free = chat.reply(question(200), WATCH)
    assert (free.finish, free.text) == ("end", tiny_checkpoint.ACCEPTED), "it may correct itself"
