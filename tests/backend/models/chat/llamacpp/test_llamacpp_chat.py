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
from support.fake_llama_server import MODEL, starts_of, write_agent, write_program
from support.tiny_checkpoint import PLAIN, WATCH, question

from interleave_thinker.backend.core.errors import Cancelled, ChatError, SettingsError
from interleave_thinker.backend.models.chat import open_chat
from interleave_thinker.backend.models.chat.llamacpp_chat import LlamaCppChat, find_gguf
from interleave_thinker.backend.models.chat.llamacpp_server import LlamaServer
from interleave_thinker.backend.story.agents.critic import Critic
from interleave_thinker.backend.story.agents.planner import Planner

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")


def opened(folder: Path, fault: str = "none", **options: Any) -> tuple[Any, Path]:
    program = write_program(folder, fault, tiny_checkpoint.ACCEPTED)
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


def projector_name(model: Path, named: str | None = None) -> str | None:
    found = find_gguf(str(model), named).projector
    return None if found is None else found.name


@pytest.mark.parametrize(
    ("others", "model", "taken"),
    [
        (["mmproj-F32.gguf", "mmproj-F16.gguf", "mmproj-BF16.gguf"], "VL-Q4_K_M.gguf", "mmproj-F16.gguf"),
        (
            ["mmproj-Qwen3-VL-4B-F16.gguf", "mmproj-Qwen3-VL-8B-F16.gguf"],
            "Qwen3-VL-8B-UD-Q4_K_XL.gguf",
            "mmproj-Qwen3-VL-8B-F16.gguf",
        ),
        (["Qwen3-VL-8B.mmproj-Q8_0.gguf"], "Qwen3-VL-8B.Q8_0.gguf", "Qwen3-VL-8B.mmproj-Q8_0.gguf"),
        (["mmproj-another-f16.gguf"], "mine-q8_0.gguf", "mmproj-another-f16.gguf"),
        (["mmproj-a-f16.gguf", "mmproj-b-f16.gguf"], "mine-q8_0.gguf", ""),
    ],
)  # fmt: skip
def test_the_projector_is_the_one_whose_name_fits(
    tmp_path: Path, others: list[str], model: str, taken: str
) -> None:
    for name in (*others, model):
        (tmp_path / name).write_bytes(MODEL)
    if taken:
        assert projector_name(tmp_path / model) == taken
    else:
        with pytest.raises(ChatError, match=r"mmproj-.*gguf|own folder, with its projector"):
            find_gguf(str(tmp_path / model))
    for name in others:
        assert projector_name(tmp_path / model, str(tmp_path / name)) == name


def test_a_model_in_parts_is_its_first_part_and_needs_all(tmp_path: Path) -> None:
    (tmp_path / "mmproj.gguf").write_bytes(MODEL)
    for number in (1, 2):
        (tmp_path / f"m-{number:05}-of-00002.gguf").write_bytes(MODEL)
    assert len(find_gguf(str(tmp_path / "m-00001-of-00002.gguf")).parts) == 2
    with pytest.raises(ChatError, match="the first"):
        find_gguf(str(tmp_path / "m-00002-of-00002.gguf"))
    (tmp_path / "m-00002-of-00002.gguf").unlink()
    with pytest.raises(ChatError, match=r"Part .*m-00002.*ownload"):
        find_gguf(str(tmp_path / "m-00001-of-00002.gguf"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "damaged"),
        (MODEL[:20], "damaged"),
        (b"PK\x03\x04" + bytes(90), "not a GGUF file"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    ],
)
def test_an_invalid_file_is_rejected_before_a_server_starts(
    tmp_path: Path, content: bytes, said: str
) -> None:
    model = write_agent(tmp_path)
    model.write_bytes(content)
    with pytest.raises(ChatError, match=said):
        find_gguf(str(model))


@pytest.mark.parametrize("name", ["no.gguf", "", "mmproj-tiny-F16.gguf", "../x\0.gguf"])
def test_a_file_without_a_model_is_rejected(tmp_path: Path, name: str) -> None:
    write_agent(tmp_path)
    with pytest.raises(ChatError):
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
    whole = find_gguf(str(write_agent(tmp_path / "models")))
    assert whole.digest != chat.server.digest


# The server


def test_a_missing_server_raises_with_install_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = write_agent(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("LLAMA_SERVER", raising=False)
    with pytest.raises(SettingsError, match=r"llama-server.*github.com/ggml-org/llama.cpp"):
        open_chat(f"llamacpp:{model}")
    with pytest.raises(SettingsError, match=r"not an executable program.*LLAMA_SERVER"):
        open_chat(f"llamacpp:{model}", llama_server=str(model))


def test_the_server_is_found_by_the_environment_and_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = write_program(tmp_path, text="Hello.")
    model = write_agent(tmp_path / "models")
    for name, value in (("LLAMA_SERVER", str(program)), ("PATH", f"{tmp_path}:{os.environ['PATH']}")):
        with monkeypatch.context() as only:
            only.delenv("LLAMA_SERVER", raising=False)
            only.setenv(name, value)
            assert open_chat(f"llamacpp:{model}").reply(question(200), PLAIN).text == "Hello."


def test_a_server_starts_once_with_its_own_key_and_stops_with_its_last_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_the_last_lines_are_read_on_a_busy_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listen = LlamaServer._listen

    def listen_late(*arguments: Any) -> None:
        time.sleep(0.5)
        listen(*arguments)

    monkeypatch.setattr(LlamaServer, "_listen", listen_late)
    chat, _ = opened(tmp_path, "dies")
    with pytest.raises(ChatError, match="failed to load model"):
        chat.reply(question(200), PLAIN)


def test_a_server_that_hangs_is_stopped_and_the_next_reply_has_a_new_one(tmp_path: Path) -> None:
    chat, program = opened(tmp_path, "never ready", start_seconds=0.8)
    with pytest.raises(ChatError, match=r"not ready within 0.8 s: .*loading"):
        chat.reply(question(200), PLAIN)
    (tmp_path / "mute").mkdir()
    chat, program = opened(tmp_path / "mute", "mute", timeout=1.0)
    for number in (1, 2):
        with pytest.raises(ChatError, match="did not answer and was stopped"):
            chat.reply(question(200), PLAIN)
        assert len(starts_of(program)) == number
        assert is_gone(starts_of(program)[-1][0])


def test_cancelling_works_while_a_server_starts(tmp_path: Path) -> None:
    chat, program = opened(tmp_path, "never ready")

    def cancel(text: str) -> None:
        if starts_of(program):
            raise Cancelled("stop")

    with pytest.raises(Cancelled):
        chat.reply(question(200), PLAIN, cancel)
    assert is_gone(starts_of(program)[0][0])


def test_a_killed_program_leaves_no_server(tmp_path: Path) -> None:
    program = write_program(tmp_path, text="Hello.")
    model = write_agent(tmp_path / "models")
    code = textwrap.dedent(f"""
        import sys, time
        sys.path[:0] = {sys.path!r}
        import conftest
        from interleave_thinker.backend.chat import open_chat
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


def test_impossible_options_are_rejected(tmp_path: Path) -> None:
    for options in ({"context": 5}, {"threads": 0}, {"gpu_layers": -1}, {"context": "many"}):
        with pytest.raises(SettingsError, match="llamacpp"):
            opened(tmp_path, **options)
