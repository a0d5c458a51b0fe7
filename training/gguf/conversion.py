"""Converts a checkpoint to a GGUF agent: model, projector for images, and the records next to them.

llama.cpp's own converter writes the files, since the format follows its releases. The folder appears only
when it is complete, and has the prompt set and the agent card, which `llamacpp:FILE` and Load Agent apply.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...backend.chat.llamacpp.gguf_files import find_gguf
from ...backend.chat.llamacpp.server_program import find_server
from ...backend.checkpoints.checkpoint import check_checkpoint, joined_patches, read_json, runs_in_llamacpp
from ...backend.errors import ChatError, SettingsError, TrainingError
from ...backend.files.atomic import scratch_folder, writing_folder
from ...backend.prompts.agent_card import CARD
from ...backend.prompts.prompt_set import FOLDER_NAME
from ...backend.prompts.trained_with import FILE
from .child_process import run_program
from .programs import CONVERTER, QUANTIZER, find_converter, find_python, find_quantizer
from .settings import GgufSettings

Log = Callable[[str], None]


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
            raise SettingsError("--quantizer has no effect without --quantize.", "Add --quantize q8_0.")
        check_checkpoint(checkpoint, untested=True)
        _check_runnable(checkpoint)
        if settings.check:
            find_server(settings.llama_server)
        return cls(
            settings,
            find_converter(settings.converter),
            find_python(settings.converter_python),
            find_quantizer(settings.quantizer) if settings.quantize else None,
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
        with writing_folder(folder, TrainingError, "The GGUF agent") as made:
            made = made.absolute()
            model, projector = made / f"{name}-f16.gguf", made / f"mmproj-{name}-f16.gguf"
            files = [model]
            with scratch_folder(folder.absolute().parent, TrainingError, "The converter's home") as home:
                log(f"converting with {self.converter}")
                self._convert(checkpoint, model, (), output, home)
                if sees := "vision_config" in read_json(checkpoint / "config.json"):
                    self._convert(checkpoint, projector, ("--mmproj",), output, home)
                if self.quantizer is not None and self.settings.quantize is not None:
                    kind = self.settings.quantize
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

    def _convert(self, checkpoint: Path, file: Path, more: tuple[str, ...], output: Path, home: Path) -> None:
        command = [self.python, str(self.converter), str(checkpoint.absolute()), *more]
        run_program(CONVERTER, [*command, "--outtype", "f16", "--outfile", str(file)], output, home)


def _check_written(file: Path, projector: Path | None) -> None:
    try:
        find_gguf(str(file), None if projector is None else str(projector))
    except ChatError as error:
        raise TrainingError(
            f"The converter did not write a whole agent: {error.message}",
            "Use the converter of a current llama.cpp.",
        ) from error


def _check_runnable(checkpoint: Path) -> None:
    """Raise SettingsError if llama.cpp computes another result than transformers for the checkpoint."""
    config = read_json(checkpoint / "config.json")
    if not runs_in_llamacpp(config):
        merge = joined_patches(config)
        raise SettingsError(
            f"{str(checkpoint)!r} joins {merge} by {merge} patches of an image, but llama.cpp always joins "
            "2 by 2.",
            "Use it as transformers:FOLDER. The tiny world's agents cannot run in llama.cpp.",
        )


def _copy_records(checkpoint: Path, folder: Path) -> None:
    """Copy the prompt set and the record of how the checkpoint was trained."""
    if (checkpoint / FOLDER_NAME).is_dir():
        shutil.copytree(checkpoint / FOLDER_NAME, folder / FOLDER_NAME)
    for name in (CARD, FILE):
        if (checkpoint / name).is_file():
            shutil.copyfile(checkpoint / name, folder / name)
