"""What the tests of trainings share: a tiny checkpoint, images and rows, and one finished training of a kind.

They are made once for all processes of a session. A test that changes a folder copies it before.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.made_once import made_once


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random critic (`base`), images (0.png, 255.png, large.png) and rows of reinforcement."""
    from support import short_trainings

    return made_once(tmp_path_factory.getbasetemp(), "of a user", short_trainings.prepare)


@pytest.fixture(scope="session")
def images(folder: Path) -> Path:
    """The folder with the images."""
    return folder


@pytest.fixture(scope="session")
def base(folder: Path) -> Path:
    """The random critic."""
    return folder / "base"


@pytest.fixture(scope="session")
def tuned(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished fine-tuning of an adapter for the random critic, in 4 steps."""
    from support import short_trainings

    def make(out: Path) -> None:
        out.mkdir()
        short_trainings.sft(folder, out / "my run", lora_r=2, learning_rate=5e-2)

    return made_once(tmp_path_factory.getbasetemp(), "tuned", make) / "my run"


@pytest.fixture(scope="session")
def reinforced(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished reinforcement of the tiny world's critic, in 2 rollouts of 2 steps; `lines` is its log."""
    from support import short_trainings

    def make(out: Path) -> None:
        out.mkdir()
        lines: list[str] = []
        short_trainings.grpo(folder, out / "my run", lines.append)
        (out / "my run" / "lines").write_text("\n".join(lines))

    return made_once(tmp_path_factory.getbasetemp(), "reinforced", make) / "my run"
