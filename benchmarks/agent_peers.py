r"""Compares programs that run the same small agent on a CPU.

They are our engine, the library's `generate`, llama.cpp, `transformers serve` and ComfyUI's text generation.

All use one model with random weights and Qwen's tokenizer, the same critic questions, the same number of
tokens, and one thread. Each question goes to all of them in a rotating order, so that other load slows all
equally. Processor time is compared (ours and that of child processes), because it does not depend on other
programs. Forward passes are counted where possible. Random weights produce repetitive text, which favors
prompt lookup, so our engine is also measured without it. Agreement is the number of replies equal to those of
`generate`, and the share of equal text at the beginning, because texts diverge at the first rounding
difference.

    LLAMA=~/llama COMFYUI_PATH=~/comfy/ComfyUI-new INTERLEAVE_SERVE_PYTHON=~/serve/bin/python \
        python -m benchmarks.agent_peers --questions 12 --work /tmp/peers
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interleave_thinker.backend.agents.critic import critic_message
from interleave_thinker.backend.chat import ChatModel, Message, Reply, ReplySettings, open_chat
from interleave_thinker.backend.chat.engine.settings import EngineSettings
from interleave_thinker.backend.machine.counters import counting
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.prompts import default_prompt_set

from . import ROOT

TICKS = os.sysconf("SC_CLK_TCK")
SIDE = 512
THREADS = "1"


@dataclass
class Peer:
    """One program that runs the agent.

    `process` returns its process id, or `None` if it runs in this process.
    """

    name: str
    chat: ChatModel
    process: Callable[[], int | None] = lambda: None
    seconds: list[float] = field(default_factory=list)
    passes: list[int] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)

    def ask(self, question: Message, settings: ReplySettings) -> None:
        """Ask, and record the processor seconds used here and in the program's process."""
        before = self._used()
        with counting() as counted:
            reply = self.chat.reply([question], settings)
        self.seconds.append(self._used() - before)
        self.passes.append(counted.lm_forwards)
        self.replies.append(reply)

    def _used(self) -> float:
        here = time.process_time()
        process = self.process()
        return here if process is None else here + tree_seconds(process)


def tree_seconds(process: int) -> float:
    """Return the processor seconds of a process and its descendants so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return (int(fields[11]) + int(fields[12])) / TICKS + sum(tree_seconds(int(child)) for child in children)


def build(folder: Path, tokenizer: Path) -> Path:
    """Create a Qwen3-VL with 50 M random weights and the tokenizer of a ComfyUI checkout."""
    import torch
    from transformers import (
        Qwen2Tokenizer,
        Qwen2VLImageProcessor,
        Qwen3VLConfig,
        Qwen3VLForConditionalGeneration,
        Qwen3VLProcessor,
        Qwen3VLVideoProcessor,
    )

    from interleave_thinker.tinyworld.lab.models.small_checkpoint import TEMPLATE, rotary

    words = Qwen2Tokenizer.from_pretrained(
        tokenizer,
        eos_token="<|im_end|>",
        image_token="<|image_pad|>",
        video_token="<|video_pad|>",
        vision_start_token="<|vision_start|>",
        vision_end_token="<|vision_end|>",
    )
    shown: dict[str, Any] = {
        "size": {"shortest_edge": 64 * 64, "longest_edge": 1024 * 1024},
        "patch_size": 16,
        "merge_size": 2,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
    }
    processor = Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(**shown),
        tokenizer=words,
        video_processor=Qwen3VLVideoProcessor(**shown),
        chat_template=TEMPLATE.replace("{{ message.role }}", r"{{ message.role ~ '\n' }}"),
    )
    ids = {
        name: words.convert_tokens_to_ids(token)
        for name, token in (
            ("image_token_id", "<|image_pad|>"),
            ("video_token_id", "<|video_pad|>"),
            ("vision_start_token_id", "<|vision_start|>"),
            ("vision_end_token_id", "<|vision_end|>"),
        )
    }
    torch.manual_seed(0)
    model = Qwen3VLForConditionalGeneration(
        Qwen3VLConfig(
            text_config={
                "vocab_size": len(words),
                "hidden_size": 256,
                "intermediate_size": 768,
                "num_hidden_layers": 8,
                "num_attention_heads": 8,
                "num_key_value_heads": 4,
                "head_dim": 32,
                "max_position_embeddings": 16384,
                "initializer_range": 0.06,
                "rope_parameters": rotary(5_000_000.0, 6, 5, 5),
                "tie_word_embeddings": True,
            },
            vision_config={
                "depth": 6,
                "hidden_size": 192,
                "intermediate_size": 768,
                "num_heads": 6,
                "num_position_embeddings": 1024,
                "deepstack_visual_indexes": [1, 3, 5],
                "out_hidden_size": 256,
                "patch_size": 16,
            },
            tie_word_embeddings=True,
            **ids,
        )
    )
    model.generation_config.eos_token_id = words.convert_tokens_to_ids("<|im_end|>")
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def convert(checkpoint: Path, llama: Path, folder: Path) -> dict[str, Path]:
    """Convert the checkpoint to GGUF as f16, q8_0 and q4_k_m, with one projector."""
    folder.mkdir(exist_ok=True)
    whole = folder / "agent-f16.gguf"
    projector = folder / "mmproj-agent-f16.gguf"
    script = [sys.executable, str(llama / "convert_hf_to_gguf.py"), str(checkpoint), "--outtype", "f16"]
    log = (folder / "convert.log").open("ab")
    if not whole.exists():
        subprocess.run([*script, "--outfile", str(whole)], check=True, stdout=log, stderr=log)
    if not projector.exists():
        subprocess.run([*script, "--mmproj", "--outfile", str(projector)], check=True, stdout=log, stderr=log)
    made = {"f16": whole}
    for kind in ("q8_0", "q4_k_m"):
        made[kind] = folder / f"agent-{kind}.gguf"
        if not made[kind].exists():
            quantize = [str(llama / "bin" / "llama-quantize"), str(whole), str(made[kind]), kind, THREADS]
            subprocess.run(quantize, check=True, stdout=log, stderr=log)
    return made


def served(python: str, checkpoint: Path, log: Path) -> tuple[ChatModel, subprocess.Popen[bytes]]:
    """Start `transformers serve` with this checkpoint in float32."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [python, "-m", "transformers.cli.transformers", "serve", "--host", "127.0.0.1"]
    said = log.open("wb")
    server = subprocess.Popen(
        [*command, "--port", str(port), "--device", "cpu", "--dtype", "float32"],
        stdout=said,
        stderr=said,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": THREADS},
    )
    until = time.monotonic() + 240
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return open_chat(f"openai:{checkpoint}@http://127.0.0.1:{port}/v1"), server
        assert server.poll() is None, log.read_text(errors="replace")[-2000:]
        time.sleep(0.2)
    raise TimeoutError("transformers serve did not start within 240 s")


class HostWriter:
    """ComfyUI's text generation with the same weights, running in ComfyUI's Python (`host_writer.py`)."""

    prompt_set = None
    identity = "host"

    def __init__(self, comfy: Path, checkpoint: Path, folder: Path) -> None:
        self._folder = folder
        program = [comfy / "venv" / "bin" / "python", ROOT / "benchmarks" / "host_writer.py"]
        self.child = subprocess.Popen(
            [*map(str, program), str(comfy), str(checkpoint)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "host.log").open("wb"),
            env={**os.environ, "OMP_NUM_THREADS": THREADS, "HF_HUB_OFFLINE": "1"},
        )

    def reply(self, messages: Sequence[Message], settings: ReplySettings, on_token: Any = None) -> Reply:
        """Write the images to files and ask the child process."""
        parts: list[str] = []
        for number, part in enumerate(messages[0].content):
            if isinstance(part, Picture):
                path = self._folder / f"page{number}.png"
                part.image.save(path)
                parts.append(f"image:{path}")
            else:
                parts.append(f"text:{part}")
        assert self.child.stdin is not None and self.child.stdout is not None
        self.child.stdin.write(json.dumps({"parts": parts, "tokens": settings.limit}).encode() + b"\n")
        self.child.stdin.flush()
        while line := self.child.stdout.readline():
            if line.startswith(b"REPLY "):
                said = json.loads(line[6:])
                return Reply(text=said["text"], tokens=said["tokens"], finish="length")
        raise RuntimeError((self._folder / "host.log").read_text(errors="replace")[-2000:])


def questions(count: int) -> list[Message]:
    """Return critic questions with two images of random rectangles each; they are always the same."""
    draw = random.Random("peers")
    prompts, made = default_prompt_set(), []
    from PIL import Image, ImageDraw

    for number in range(count):
        pages = []
        for _ in range(2):
            page = Image.new("RGB", (SIDE, SIDE), tuple(draw.randrange(256) for _ in range(3)))
            for _ in range(6):
                (left, right), (top, bottom) = (
                    sorted(draw.randrange(SIDE) for _ in range(2)) for _ in range(2)
                )
                box = (left, top, right + 1, bottom + 1)
                ImageDraw.Draw(page).rectangle(box, fill=tuple(draw.randrange(256) for _ in range(3)))
            pages.append(Picture(page))
        text = f"Draw house number {number} with {draw.randrange(9)} windows."
        made.append(critic_message(prompts, pages, text, text))
    return made


def same_beginning(one: str, other: str) -> int:
    """Return how many characters are equal at the beginning of two replies."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (mine, theirs) in enumerate(pairs) if mine != theirs), min(len(one), len(other)))


def table(peers: Sequence[Peer]) -> str:
    """Format the results as a Markdown table."""
    base = next(peer for peer in peers if peer.name == "library's generate")
    lines = [
        "| | processor seconds a reply (median, quartiles) | against generate, paired | passes a reply "
        "| same replies | same beginning |",
        "|---|---|---|---|---|---|",
    ]
    for peer in peers:
        low, middle, high = statistics.quantiles(peer.seconds, n=4)
        both = zip(peer.seconds, base.seconds, strict=True)
        ratio = statistics.median(mine / theirs for mine, theirs in both)
        pairs = list(zip(peer.replies, base.replies, strict=True))
        same = sum(mine.text == theirs.text for mine, theirs in pairs)
        share = statistics.mean(
            same_beginning(mine.text, theirs.text) / max(1, len(theirs.text)) for mine, theirs in pairs
        )
        passes = f"{statistics.mean(peer.passes):.0f}" if any(peer.passes) else "-"
        lines.append(
            f"| {peer.name} | {middle:.2f} ({low:.2f} to {high:.2f}) | {ratio:.2f} | {passes} | {same} of "
            f"{len(pairs)} | {share:.0%} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run the experiment and print its figures."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--questions", type=int, default=12)
    arguments.add_argument("--tokens", type=int, default=128)
    arguments.add_argument("--work", type=Path, default=Path("/tmp/peers"), help="folder for generated files")
    given = arguments.parse_args()
    import torch

    torch.set_num_threads(int(THREADS))
    given.work.mkdir(exist_ok=True)
    comfy = Path(os.environ["COMFYUI_PATH"]).expanduser()
    llama = Path(os.environ["LLAMA"]).expanduser()
    checkpoint = given.work / "agent"
    if not (checkpoint / "config.json").exists():
        shutil.rmtree(checkpoint, ignore_errors=True)
        build(checkpoint, comfy / "comfy" / "text_encoders" / "qwen25_tokenizer")
    files = convert(checkpoint, llama, given.work / "gguf")

    def local(**settings: Any) -> ChatModel:
        engine = EngineSettings(**settings)
        options = {"device": "cpu", "dtype": "float32", "engine": engine, "share": False}
        return open_chat(f"transformers:{checkpoint}", **options)

    peers = [
        Peer("our engine", local()),
        Peer("our engine without prompt lookup", local(prompt_lookup_tokens=0)),
        Peer("library's generate", local(enabled=False)),
    ]
    for kind, path in files.items():
        program = str(llama / "bin" / "llama-server")
        chat: Any = open_chat(f"llamacpp:{path}", llama_server=program, threads=1, gpu_layers=0)
        peers.append(Peer(f"llama.cpp {kind}", chat, lambda chat=chat: chat.server.process.process_id))
    ends: list[subprocess.Popen[bytes]] = []
    if python := os.environ.get("INTERLEAVE_SERVE_PYTHON"):
        chat, server = served(str(Path(python).expanduser()), checkpoint, given.work / "serve.log")
        ends.append(server)
        peers.append(Peer("transformers serve", chat, lambda: server.pid))
    if (comfy / "comfy" / "text_encoders" / "qwen3vl.py").exists():
        writer = HostWriter(comfy, checkpoint, given.work)
        ends.append(writer.child)
        peers.append(Peer("ComfyUI's TextGenerate", writer, lambda: writer.child.pid))
    settings = ReplySettings(max_tokens=given.tokens)
    try:
        asked = questions(given.questions + 1)
        for peer in peers:
            # Exclude loading, checks and one-time costs of the first pass.
            peer.chat.reply([asked[0]], settings)
        for number, question in enumerate(asked[1:]):
            for peer in peers[number % len(peers) :] + peers[: number % len(peers)]:
                peer.ask(question, settings)
            print(
                f"{number + 1} of {given.questions}, load {os.getloadavg()[0]:.1f}",
                file=sys.stderr,
                flush=True,
            )
    finally:
        for child in ends:
            child.kill()
    print(table(peers))
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    print(f"\n{given.questions} questions, {given.tokens} tokens each, {load}")
    replies = {peer.name: [one.text for one in peer.replies] for peer in peers}
    (given.work / "replies.json").write_text(json.dumps(replies))


if __name__ == "__main__":
    main()
