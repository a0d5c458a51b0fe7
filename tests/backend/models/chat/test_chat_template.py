"""Chat templates are rendered like the library does; one that would hang or fill the memory is an error."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.small_families import FAMILIES, build_family
from support.tiny_checkpoint import PLAIN, build_checkpoint, question

from interleave_thinker.backend.core.errors import ChatError
from interleave_thinker.backend.models.chat import chat_template, open_chat
from interleave_thinker.backend.models.chat.chat_template import TemplateRenderer, rendered
from interleave_thinker.backend.models.chat.local.base_model import load_processor

TURNS: list[dict[str, Any]] = [
    {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
    {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "It is \ud83c {{ x }} 猫"}]},
    {"role": "assistant", "content": [{"type": "text", "text": "<think>a</think> b"}]},
    {"role": "user", "content": [{"type": "text", "text": "And now?"}]},
]
LOOPS = "{% for a in range(99999) %}" * 3 + "{% endfor %}" * 3
HOSTILE = {
    "nested loops": LOOPS,
    "a long text": "{{ 'a' * 3000000000 }}",
    "a large number": "{{ 10 ** (10 ** 10) }}",
    "too long an answer": "{{ 'a' * 20000000 }}",
    "an attribute": "{{ messages.__class__.__mro__ }}",
    "its own error": "{{ raise_exception('no system role') }}",
}


@pytest.fixture(scope="module")
def renderer() -> Iterator[TemplateRenderer]:
    made = TemplateRenderer(seconds=2.0)
    made.start()
    assert made.render("{{ messages[0].role }}", TURNS, True, {}) == "system"
    yield made
    made.stop()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_checkpoint(tmp_path_factory.mktemp("made") / "tiny")


@pytest.mark.parametrize("family", ["qwen3_vl", *FAMILIES])
def test_a_rendered_text_equals_the_librarys(family: str, checkpoint: Path) -> None:
    processor: Any = load_processor(checkpoint) if family == "qwen3_vl" else build_family(family)[1]
    for turns in (TURNS, TURNS[1:2], TURNS[1:3]):
        for asks in (True, False):
            wanted = processor.apply_chat_template(turns, tokenize=False, add_generation_prompt=asks)
            assert rendered(processor, turns, asks) == wanted


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_template_is_an_error(kind: str, renderer: TemplateRenderer) -> None:
    with pytest.raises(ChatError, match="chat template") as error:
        renderer.render(HOSTILE[kind], TURNS, True, {})
    assert error.value.hint
    assert renderer.render("{{ messages[1].role }}", TURNS, True, {}) == "user"


def test_no_template_freezes_its_agent(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chat: Any = open_chat(f"transformers:{checkpoint}", device="cpu", share=False)
    chat.base.processor.chat_template = LOOPS
    renderer = TemplateRenderer(seconds=1.0)
    monkeypatch.setattr(chat_template, "RENDERER", renderer)
    monkeypatch.setattr(chat_template, "START_SECONDS", 1.0)
    with pytest.raises(ChatError, match="chat template"):
        chat.reply(question(200), PLAIN)
    renderer.stop()


def test_a_process_that_was_killed_is_started_again(renderer: TemplateRenderer) -> None:
    child = renderer._child
    assert child is not None
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert renderer.render("{{ messages[1].role }}", TURNS, True, {}) == "user"


def test_a_process_that_reads_nothing_raises(renderer: TemplateRenderer) -> None:
    child = renderer._child or renderer._running()
    os.kill(child.pid, signal.SIGSTOP)
    with pytest.raises(ChatError, match="chat template took more than"):
        renderer.render("x", [{"text": "a" * 1_000_000}], True, {})
    assert renderer.render("{{ messages[1].role }}", TURNS, True, {}) == "user"


def test_the_process_ends_itself_if_its_parent_cannot() -> None:
    asked = {"template": LOOPS, "conversation": [], "asks": True, "tokens": {}}
    lines = [sys.path, {**asked, "longest": 1000, "seconds": 0.5}]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    worker = [sys.executable, "-I", str(chat_template.WORKER)]
    ended = subprocess.run(worker, input=text, capture_output=True, text=True, timeout=120)
    assert ended.returncode and not ended.stdout


def test_threads_get_their_own_texts(renderer: TemplateRenderer) -> None:
    def ask(number: int) -> str:
        return renderer.render("{{ messages[0] }}", [{"n": number}], True, {})

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(40))) == [str({"n": number}) for number in range(40)]


def test_one_of_several_templates_is_the_default_one() -> None:
    tokenizer = SimpleNamespace(special_tokens_map={"bos_token": "<s>"})
    several = {"default": "{{ bos_token }}", "tools": "no"}
    assert rendered(SimpleNamespace(chat_template=several, tokenizer=tokenizer), TURNS) == "<s>"
    with pytest.raises(ChatError, match="several chat templates"):
        rendered(SimpleNamespace(chat_template={"tools": "no"}, tokenizer=tokenizer), TURNS)
