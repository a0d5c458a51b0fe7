"""Model card of a trained checkpoint (facts as JSON, and README.md for the Hugging Face Hub), and its upload.

The facts (`model_card.json`) are stored next to the weights, so that the card can be written again when more
is known: after the gate, after a merge, or when the checkpoint is published. Paths and addresses of the
user's machine are removed before anything is stored.

Only files of the checkpoint are uploaded: weights, configuration, tokenizer, prompt set and cards. The state
of a trainer, logs, rows and images stay. Configurations lose the paths that libraries write into them.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ...backend.core.errors import SettingsError, TrainingError, boundary, first_fault
from ...backend.core.files.atomic import write_text
from ...backend.core.files.bounded_reader import read_bytes_if_any, read_json
from ...backend.core.machine.libraries import installed
from ...backend.core.prompts.agent_card import CARD, AgentCard, KindReliability, Role, read_card
from ...backend.core.prompts.prompt_set import FOLDER_NAME
from ...backend.core.prompts.published_checkpoints import HUB_FOLDER
from ...backend.core.shown_text import shown_text
from ...backend.models.checkpoints.checkpoint import (
    HUB_ID,
    MODEL_CARD,
    check_adapter,
    check_checkpoint,
    checkpoint_digest,
    runs_in_llamacpp,
)

logger = logging.getLogger(__name__)

README, ADAPTER = "README.md", "adapter_config.json"
TASK = "image-text-to-text"
LIBRARIES = ("torch", "transformers", "trl", "peft", "accelerate", "bitsandbytes", "vllm")
MAX_BYTES = 1024 * 1024
LICENSE = re.compile(r"\A---\r?\n(?:(?!---).*\n)*?license:[ \t]*[\"']?([\w.+-]{1,80})")
URL = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s'\",;)]+", re.IGNORECASE)
PATH = re.compile(r"(?<![\w.])(?:~|\.\.?|[A-Za-z]:(?=[\\/])|(?=[/\\]))(?:[/\\][^/\\\s'\",;:)]+)+[/\\]?")
TEMPLATE = Path(__file__).with_name("model_card.md.j2")


def shareable(text: str) -> str:
    """Return a text with the last name in place of each path, and without the addresses of servers.

    A path with blanks is known only if it begins with the home folder or is the whole text.
    """
    if os.path.isabs(text) and os.path.exists(text):
        return Path(text).name
    text = URL.sub("(address)", text)
    text = re.sub(rf"{re.escape(os.path.expanduser('~'))}(?=[/\\])", "~", text)
    return PATH.sub(lambda found: PurePosixPath(PureWindowsPath(found.group()).as_posix()).name, text)


def _shareable(value: Any) -> Any:
    if isinstance(value, str):
        return shareable(value)
    if isinstance(value, Mapping):
        return {name: _shareable(one) for name, one in value.items()}
    return [_shareable(one) for one in value] if isinstance(value, (list, tuple)) else value


class Facts(BaseModel):
    """Values without paths of the user's machine. Unknown fields of other versions are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _without_paths(cls, values: Any) -> Any:
        return _shareable(values)


class UsedRows(Facts):
    """A set of rows: its purpose, number of rows and the digest of their content."""

    name: str
    count: int
    digest: str


class SettingFact(Facts):
    """A setting: option, value as text, and whether it is the default."""

    name: str
    value: str
    is_default: bool


class Origin(Facts):
    """Model that a training started from.

    Attributes:
        name: Hub id or name of its folder.
        digest: Digest of its files.
        hub: Hub id of it, or of the published model that it was trained from; `None` if unknown.
        license: License in its own model card; `None` if unknown.
        stages: Earlier trainings of it, oldest first.
        rows: Rows of these trainings.
    """

    name: str
    digest: str
    hub: str | None = Field(default=None, pattern=r"^[\w.-]+(/[\w.-]+)?$")
    license: str | None = None
    stages: tuple[str, ...] = ()
    rows: tuple[UsedRows, ...] = ()


class CardFacts(Facts):
    """Facts about a training.

    Attributes:
        stage: "sft", "critic-grpo" and so on.
        role: Job of the agent.
        base: Model that it started from.
        steps: Optimizer steps of the result.
        rows: Rows that were trained on, measured and held out.
        settings: All settings.
        made_with: Judges, generators and libraries by name.
        notes: Lines about the training.
        checks: Held-out checks of the first and the last checkpoint.
        stopped: Reason why the training had to stop, if it had.
        gate: Table of the regression gate, as lines of Markdown.
        learned: Table of what it learned from annotated runs.
        verdicts: Examples of its verdicts on held-out rows, as lines of Markdown.
        question: Question of a row that it was trained on.
        merged: Whether an adapter was merged into its base.
    """

    stage: str
    role: Role | None = None
    base: Origin
    steps: int | None = None
    rows: tuple[UsedRows, ...] = ()
    settings: tuple[SettingFact, ...] = ()
    made_with: dict[str, str] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    stopped: str | None = None
    gate: tuple[str, ...] = ()
    learned: tuple[str, ...] = ()
    verdicts: tuple[str, ...] = ()
    question: str = ""
    merged: bool = False


def facts_of(
    stage: str,
    role: Role | None,
    checkpoint: Path,
    rows: Sequence[tuple[str, int, str]],
    settings: Sequence[BaseModel],
    made_with: Mapping[str, Any] | None = None,
    **more: Any,
) -> CardFacts:
    """Return the facts of a training.

    Args:
        stage: Name of the stage.
        role: Job of the agent.
        checkpoint: Folder of the model that it started from.
        rows: Name, number and digest of each set of rows.
        settings: Models of the settings; addresses, which may contain a key, are left out.
        made_with: Judges and generators by name.
        more: Further fields of the facts.
    """
    shown = []
    for model in settings:
        for name, field in type(model).model_fields.items():
            value = getattr(model, name)
            text = "(given)" if value and name.endswith("url") else str(value)
            shown.append(
                SettingFact(name=name.replace("_", "-"), value=text, is_default=value == field.default)
            )
    versions = ((name, installed(name)) for name in LIBRARIES)
    libraries = ", ".join(f"{name} {version}" for name, version in versions if version)
    used = {name: str(one) for name, one in (made_with or {}).items()}
    return CardFacts(
        stage=stage,
        role=role,
        base=origin_of(checkpoint, getattr(settings[0], "adapter", None)),
        rows=tuple(UsedRows(name=name, count=count, digest=known) for name, count, known in rows if count),
        settings=tuple(shown),
        made_with={**used, "libraries": libraries},
        **more,
    )


def read_facts(folder: Path) -> CardFacts | None:
    """Return the facts in a checkpoint's folder, or None if it has none.

    Raises:
        TrainingError: They cannot be read.
    """
    path = folder / MODEL_CARD
    if not path.is_file():
        return None
    try:
        return CardFacts.model_validate(read_json(path, TrainingError, "The model card's facts", MAX_BYTES))
    except ValidationError as error:
        raise TrainingError(
            f"The facts of the model card {str(path)!r} are not valid{first_fault(error)}",
            "Copy the file again from where the model was trained, or delete it. The model card then lacks "
            "these facts.",
        ) from error


def origin_of(checkpoint: Path, adapter: str | None = None) -> Origin:
    """Return what is known of the model in a folder, as the start of a training that may continue an adapter.

    This is called when the training has ended, so damaged facts of its base are left out with a warning.
    """
    earlier = None
    try:
        earlier = read_facts(Path(adapter or checkpoint))
    except TrainingError as error:
        logger.warning("The model card will not contain earlier trainings. %s", shown_text(str(error)))
    cached = next((one for one in checkpoint.parts[::-1] if one.startswith(HUB_FOLDER)), None)
    hub = cached.removeprefix(HUB_FOLDER).replace("--", "/", 1) if cached else None
    known: dict[str, Any] = {"hub": hub, "license": license_of(checkpoint)}
    if earlier is not None:
        known = {name: value or getattr(earlier.base, name) for name, value in known.items()}
        known["stages"] = (*earlier.base.stages, earlier.stage)
        known["rows"] = (*earlier.base.rows, *earlier.rows)
    return Origin(name=hub or checkpoint.name, digest=checkpoint_digest(checkpoint), **known)


def license_of(folder: Path) -> str | None:
    """Return the license in the metadata of a folder's model card, or None if it does not state one."""
    try:
        content = read_bytes_if_any(folder / README, MAX_BYTES, TrainingError)
    except TrainingError:
        return None
    found = LICENSE.match((content or b"").decode("utf-8", "replace"))
    return found.group(1) if found else None


def write_card(folder: Path, facts: CardFacts, license: str | None = None, name: str | None = None) -> Path:
    """Store the facts and the model card in the folder of a checkpoint, and return the path of the card.

    Args:
        folder: Folder of the checkpoint, with its weights and its agent card.
        facts: Facts about its training.
        license: License of the checkpoint. Default: that of its base.
        name: Name of the checkpoint in the examples.

    Raises:
        TrainingError: A file cannot be written.
    """
    from huggingface_hub import EvalResult, ModelCard, ModelCardData

    text = json.dumps(facts.model_dump(mode="json"), ensure_ascii=False, indent=1)
    write_text(folder / MODEL_CARD, f"{text}\n", TrainingError, "The facts of the model card")
    agent, adapter = read_card(folder / CARD) or AgentCard(), (folder / ADAPTER).is_file()
    path = folder / "config.json"
    config: Any = read_json(path, TrainingError) if path.is_file() else {}
    role, base = facts.role or agent.role, facts.base
    license, name = license or base.license, name or f"my-{role or 'agent'}"
    more: dict[str, Any] = {"base_model_relation": "adapter" if adapter else "finetune"} if base.hub else {}
    if rows := [one.model_dump() for one in (*base.rows, *facts.rows)]:
        more["training_data"] = rows
    if agent.gate is not None:
        measured = agent.gate.model_dump(include={"accuracy", "accepts_right", "rejects_wrong"})
        about: dict[str, Any] = {
            "dataset_type": "held-out",
            "dataset_name": f"{agent.gate.rows} held-out rows",
        }
        more["model_name"] = name
        more["eval_results"] = [
            EvalResult(task_type=TASK, metric_type=metric, metric_value=round(value, 4), **about)
            for metric, value in measured.items()
        ]
    kind = config.get("model_type") if isinstance(config, dict) else None
    tags = ["interleave-thinker", "comfyui", role, facts.stage.rpartition("-")[2], "trl", kind]
    data = ModelCardData(
        base_model=base.hub,
        library_name="peft" if adapter else "transformers",
        license=license,
        pipeline_tag=TASK,
        tags=[tag for tag in tags if isinstance(tag, str)],
        **more,
    )
    card = ModelCard.from_template(
        data,
        template_path=str(TEMPLATE),
        facts=facts,
        agent=agent,
        role=role,
        name=name,
        license=license,
        adapter=adapter,
        tiny=not runs_in_llamacpp(config),  # only the agents of the tiny world cannot run there
        reliability=reliability_table(agent.reliability) if agent.reliability else [],
    )
    write_text(folder / README, f"{card}\n", TrainingError, "The model card")
    return folder / README


def reliability_table(found: Mapping[Any, KindReliability]) -> list[str]:
    """Return the lines of a Markdown table of what a critic can judge."""
    lines = [
        "| kind | items | yes of true ones | no of false ones | balanced accuracy, from | |",
        "|---|---|---|---|---|---|",
    ]
    for kind, one in found.items():
        verdict = "judges it" if one.is_reliable else "cannot judge it"
        lines.append(
            f"| {kind} | {one.items} | {one.yes_of_true:.3f} | {one.no_of_false:.3f} | "
            f"{one.accuracy:.3f}, {one.low:.3f} | {verdict} |"
        )
    return lines


FILES = (
    *("*.safetensors", "*.safetensors.index.json", "config.json", "generation_config.json", ADAPTER),
    *("*processor_config.json", "chat_template.jinja", "chat_template.json", "additional_chat_templates/*"),
    *("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json", "merges.txt"),
    *("special_tokens_map.json", "added_tokens.json", CARD, f"{FOLDER_NAME}/*.txt"),
    *("LICENSE*", "NOTICE*", README),
)
"""Files that belong to a checkpoint; others, such as the state of a trainer, stay."""
NAMES = ("base_model_name_or_path", "_name_or_path", "name_or_path")
"""Keys in which libraries write the path of a model."""
LICENSE_ID = re.compile(r"[a-z0-9][a-z0-9.+-]{1,59}")


def publish(
    folder: Path, repo: str, license: str | None = None, without_gate: bool = False, public: bool = False
) -> str:
    """Upload the result of a training, or a checkpoint, to the repository `repo` of the hub.

    Returns:
        The address of the uploaded files.

    Raises:
        SettingsError: The license is not known, the checkpoint did not pass the gate, or one of its files is
            a link.
        ChatError: The folder is not a usable checkpoint.
        TrainingError: The upload failed, or the facts of the model card cannot be read.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    checkpoint = folder / "final" if (folder / "final").is_dir() else folder
    if (checkpoint / ADAPTER).is_file():
        check_adapter(checkpoint)
    else:
        check_checkpoint(checkpoint, untested=True)
    facts = read_facts(checkpoint) or _little_known(checkpoint)
    if not without_gate:
        _check_gate(checkpoint, facts)
    write_card(checkpoint, facts, _license(checkpoint, facts, license), repo.rpartition("/")[2])
    operations = [
        CommitOperationAdd(path.relative_to(checkpoint).as_posix(), _content(path, facts.base))
        for path in _files(checkpoint)
    ]
    with boundary(TrainingError, f"The upload to {repo!r} failed", "Log in with `hf auth login`, and retry."):
        api = HfApi()
        api.create_repo(repo, private=not public, exist_ok=True)
        return str(api.create_commit(repo, operations, commit_message="Upload a trained agent").commit_url)


def _check_gate(checkpoint: Path, facts: CardFacts) -> None:
    """Check that the checkpoint may be shared as good.

    Raises:
        SettingsError: A critic did not pass the gate or was not measured, or the training had to stop.
    """
    card = read_card(checkpoint / CARD)
    gate, planner = (card.gate, card.role == "planner") if card else (None, False)
    how = "or publish it anyway with --without-gate; its model card then says so."
    if facts.stopped:
        raise SettingsError(f"The training had to stop: {facts.stopped}.", f"Train it again, {how}")
    if planner or facts.role == "planner" or (gate is not None and gate.passed):
        return
    did = "did not pass" if gate is not None else "was not measured by"
    raise SettingsError(
        f"The critic in {str(checkpoint)!r} {did} the regression gate.",
        f"Train it with critic-sft --held-out or own-critic, {how}",
    )


def _license(checkpoint: Path, facts: CardFacts, given: str | None) -> str:
    known = given or license_of(checkpoint) or facts.base.license
    if known is None:
        raise SettingsError(
            f"The license of {facts.base.hub or facts.base.name} is not known.",
            "Look it up and give it with --license, such as --license apache-2.0. It must allow derivatives.",
        )
    if not LICENSE_ID.fullmatch(known):
        raise SettingsError(
            f"{known[:80]!r} is not a license identifier of the Hugging Face Hub.",
            "Write it in lower case, such as apache-2.0, cc-by-nc-4.0 or other.",
        )
    return known


def _little_known(checkpoint: Path) -> CardFacts:
    """Return the facts about a checkpoint without any, such as one of an earlier version."""
    card = read_card(checkpoint / CARD)
    config: Any = read_json(checkpoint / ADAPTER, TrainingError) if (checkpoint / ADAPTER).is_file() else {}
    named = str(config.get("base_model_name_or_path") or "") if isinstance(config, dict) else ""
    hub = named if HUB_ID.fullmatch(named) else None
    base = Origin(name=_name_of(named) or "not known", digest="not known", hub=hub)
    return CardFacts(stage="not known", role=card.role if card else None, base=base)


def _files(checkpoint: Path) -> Iterator[Path]:
    """Yield the files to upload. A link could name any file of the user.

    Raises:
        SettingsError: One is a link.
    """
    for path in sorted({path for pattern in FILES for path in checkpoint.glob(pattern) if path.is_file()}):
        if path.is_symlink() or path.parent.is_symlink():
            raise SettingsError(f"{str(path)!r} is a link.", "Replace it by the file if it may be shared.")
        yield path


def _content(path: Path, base: Origin) -> Path | bytes:
    """Return the path of a file, or its content with names of models instead of their paths."""
    if path.suffix != ".json" or path.name in ("tokenizer.json", "vocab.json"):
        return path
    named = _with_names(read_json(path, TrainingError), base)
    return json.dumps(named, ensure_ascii=False, indent=2).encode() + b"\n"


def _with_names(content: Any, base: Origin) -> Any:
    if isinstance(content, list):
        return [_with_names(one, base) for one in content]
    if not isinstance(content, dict):
        return content
    return {
        key: base.hub or _name_of(str(value)) if key in NAMES and value else _with_names(value, base)
        for key, value in content.items()
    }


def _name_of(model: str) -> str:
    """Return the hub id of a model, or the last name of its path."""
    return model if HUB_ID.fullmatch(model) else PurePosixPath(PureWindowsPath(model).as_posix()).name
