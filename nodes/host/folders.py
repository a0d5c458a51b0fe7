"""The host's folders: agents' checkpoints, outputs.

Decision: agents have a model folder of their own, which extra_model_paths.yaml can extend like any other.
"""

from __future__ import annotations

from pathlib import Path

import folder_paths

AGENT_FOLDER = "interleave_agents"


def register_folders() -> None:
    """Make models/interleave_agents a model folder; entries of extra_model_paths.yaml are there already."""
    default = Path(folder_paths.models_dir) / AGENT_FOLDER
    folder_paths.add_model_folder_path(AGENT_FOLDER, str(default), is_default=True)


def agent_roots() -> list[Path]:
    """Every folder in which agents' checkpoints may lie, the default one first."""
    if AGENT_FOLDER not in folder_paths.folder_names_and_paths:
        register_folders()
    return [Path(root) for root in folder_paths.get_folder_paths(AGENT_FOLDER)]


def pipeline_roots() -> list[Path]:
    """Every folder in which diffusers pipelines may lie."""
    return [Path(root) for root in folder_paths.get_folder_paths("diffusers")]


def output_folder() -> Path:
    """The host's output folder."""
    return Path(folder_paths.get_output_directory())
