"""Writes the model card of a trained checkpoint: README.md with the metadata of the Hugging Face Hub.

The card is made from the facts of the training (card_facts.py) and the agent card in the same folder, which
contains what was measured. It is written again whenever one of them changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ....backend.checkpoints.families import runs_in_llamacpp
from ....backend.errors import TrainingError
from ....backend.files.atomic import write_text
from ....backend.files.bounded_reader import read_json
from ....backend.prompts import FOLDER_NAME
from ....backend.prompts.agent_card import CARD, AgentCard, KindReliability, read_card
from .card_facts import README, CardFacts, UsedRows

HOW = {"sft": "Fine-tuned", "grpo": "Reinforced"}
TASK = "image-text-to-text"
ADAPTER = "adapter_config.json"
REQUEST = "A red boat at dusk, in three steps."
TINY_REQUEST = "Draw a sea page with a red boat in the middle. Then make it blue."
"""A request with words that the agents of the tiny world know."""
JOBS = {
    "planner": "writes all steps of an illustrated story before an image model generates them",
    "critic": "compares images before and after an edit, accepts or rejects, and refines the prompt",
    "agent": "plans or judges interleaved stories of texts and images",
}


def write_card(folder: Path, facts: CardFacts, license: str | None = None, name: str | None = None) -> Path:
    """Store the facts and the model card in the folder of a checkpoint.

    Args:
        folder: Folder of the checkpoint, with its weights and its agent card.
        facts: Facts about its training.
        license: License of the checkpoint. Default: that of its base.
        name: Name of the checkpoint in the examples.

    Returns:
        The path of the card.

    Raises:
        TrainingError: A file cannot be written.
    """
    facts.save(folder)
    card = read_card(folder / CARD) or AgentCard()
    config = _config(folder)
    known = _Known(facts, card, (folder / ADAPTER).is_file(), (folder / FOLDER_NAME).is_dir(), config)
    text = known.render(license or facts.base.license, name or f"my-{facts.role or 'agent'}")
    write_text(folder / README, text, TrainingError, "The model card")
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


def _config(folder: Path) -> Mapping[str, Any]:
    path = folder / "config.json"
    config = read_json(path, TrainingError) if path.is_file() else {}
    return config if isinstance(config, dict) else {}


class _Known:
    """What is known of a checkpoint, as a card."""

    def __init__(
        self, facts: CardFacts, card: AgentCard, adapter: bool, prompts: bool, config: Mapping[str, Any]
    ) -> None:
        self.facts, self.card, self.adapter, self.prompts = facts, card, adapter, prompts
        architecture = config.get("model_type")
        self.architecture = architecture if isinstance(architecture, str) else None
        # Only the agents of the tiny world are of a kind that llama.cpp cannot run.
        self.tiny = not runs_in_llamacpp(config)
        self.role = facts.role or card.role
        self.method = facts.stage.rpartition("-")[2]

    def render(self, license: str | None, name: str) -> str:
        """Return the card as Markdown with YAML metadata."""
        lines = [
            f"# {HOW.get(self.method, 'Trained')} {self.role or 'agent'} for InterleaveThinker",
            "",
            f"This model {JOBS[self.role or 'agent']}.",
        ]
        if self.facts.stopped:
            lines += [
                "",
                f"**The training had to stop: {self.facts.stopped}.** This is its last good checkpoint.",
            ]
        parts = {
            "Use": self._use(name),
            "Training": self._training(),
            "Regression gate": self._gate(),
            "What it can judge": self._reliability(),
            "Prompt set": self._prompt_set(),
            "Settings": self._settings(),
            "License": self._license(license),
        }
        for title, content in parts.items():
            found = list(content)
            lines += ["", f"## {title}", "", *found] if found else []
        return f"---\n{self._metadata(license)}\n---\n\n" + "\n".join(lines) + "\n"

    def _metadata(self, license: str | None) -> str:
        from huggingface_hub import ModelCardData

        base = self.facts.base
        tags = ["interleave-thinker", "comfyui", self.role, self.method, "trl", self.architecture]
        rows = [one.model_dump() for one in self._rows()]
        more: dict[str, Any] = {"training_data": rows} if rows else {}
        if base.hub:
            more["base_model_relation"] = "adapter" if self.adapter else "finetune"
        data = ModelCardData(
            base_model=base.hub,
            library_name="peft" if self.adapter else "transformers",
            license=license,
            pipeline_tag=TASK,
            tags=[tag for tag in tags if tag],
            **more,
        )
        return data.to_yaml()

    def _rows(self) -> tuple[UsedRows, ...]:
        return (*self.facts.base.rows, *self.facts.rows)

    def _use(self, name: str) -> Iterator[str]:
        base, option = self.facts.base.hub or "BASE", self.role or "critic"
        yield (
            f"ComfyUI: copy the folder into `models/interleave_agents` and choose it in the node Load Agent"
            f"{f' as agent LoRA, with the base model {base} as the agent' if self.adapter else ''}."
        )
        yield ""
        yield "Command line (`pip install .` in a checkout of InterleaveThinker for ComfyUI):"
        yield ""
        yield "```bash"
        named = f"transformers:{base} --{option}-adapter {name}" if self.adapter else f"transformers:{name}"
        # The other agents are those of the tiny world if none are given.
        request, others = (TINY_REQUEST, "--out story") if self.tiny else (REQUEST, "...")
        yield f'interleave-thinker run "{request}" --{option} {named} {others}'
        yield from (
            "```",
            "",
            "transformers:",
            "",
            "```python",
            "from transformers import AutoModelForImageTextToText, AutoProcessor",
            "",
        )
        if self.adapter:
            yield "from peft import PeftModel"
            yield f'base = AutoModelForImageTextToText.from_pretrained("{base}")'
            yield f'model = PeftModel.from_pretrained(base, "{name}")'
        else:
            yield f'model = AutoModelForImageTextToText.from_pretrained("{name}")'
        yield from (f'processor = AutoProcessor.from_pretrained("{name}")', "```")
        if not self.tiny:
            yield from self._gguf(name, base)

    def _gguf(self, name: str, base: str) -> Iterator[str]:
        yield from ("", "llama.cpp:", "", "```bash")
        source = name
        if self.adapter:
            source = f"{name}-merged"
            yield f"interleave-thinker train merge --model {base} --adapter {name} --out {source}"
        script = f"python llama.cpp/convert_hf_to_gguf.py {source}"
        yield f"{script} --outtype f16 --outfile {name}-f16.gguf"
        yield f"{script} --mmproj --outfile mmproj-{name}-f16.gguf"
        yield from (
            "```",
            "",
            "The two GGUF files are used together, with the folder `prompt_set` next to them.",
        )

    def _training(self) -> Iterator[str]:
        facts = self.facts
        merged = ", merged from a LoRA adapter" if facts.merged else ""
        kind = "LoRA adapter" if self.adapter else f"all weights{merged}"
        yield f"- Base: {facts.base.name} (digest {facts.base.digest})"
        if facts.base.hub and facts.base.hub != facts.base.name:
            yield f"- Trained before from: {facts.base.hub}"
        if facts.base.stages:
            yield f"- Earlier stages: {', '.join(facts.base.stages)}"
        steps = f", {facts.steps:,} optimizer steps" if facts.steps else ""
        yield f"- Stage: {facts.stage}, {kind}{steps}"
        yield from (f"- {name}: {value}" for name, value in facts.made_with.items())
        yield from (f"- {note}" for note in facts.notes)
        rows = self._rows()
        if rows:
            yield from ("", "| data | rows | digest of the content |", "|---|---|---|")
            yield from (f"| {one.name} | {one.count:,} | {one.digest} |" for one in rows)
        if facts.checks:
            yield from ("", "Checks on held-out rows during the training:", "")
            yield from (f"- {line}" for line in facts.checks)

    def _gate(self) -> Iterator[str]:
        measured = self.card.gate
        if measured is not None:
            verdict = "passed" if measured.passed else "NOT passed, published by the user's decision"
            yield f"Compared with the model that it started from on {measured.rows} held-out rows: {verdict}."
            yield from self.facts.gate
        elif self.role == "planner":
            yield "Not measured: the gate compares critics."
        else:
            yield "Not measured. This critic may judge worse than the model that it started from."
        if self.facts.learned:
            yield from ("", "On annotated images that were held out:", *self.facts.learned)

    def _reliability(self) -> Iterator[str]:
        if self.role == "planner":
            return
        if not self.card.reliability:
            yield "Not measured by kind of question."
            return
        yield "Answers to items of checklists with known truth. 0.5 is guessing; such kinds reject no image."
        yield from ("", *reliability_table(self.card.reliability))

    def _prompt_set(self) -> Iterator[str]:
        pixels = self.card.image_pixels
        if self.prompts:
            known = f" (digest {self.card.prompt_set})" if self.card.prompt_set else ""
            yield f"Trained with the prompt set in the folder `{FOLDER_NAME}`{known}; use no other prompts."
        else:
            yield "The checkpoint does not contain a prompt set."
        if pixels:
            yield f"Images had at most {pixels:,} pixels."

    def _settings(self) -> Iterator[str]:
        if not self.facts.settings:
            return
        yield from ("| setting | value | |", "|---|---|---|")
        for one in self.facts.settings:
            yield f"| {one.name} | {_cell(one.value)} | {'default' if one.is_default else 'changed'} |"

    def _license(self, license: str | None) -> Iterator[str]:
        yield (
            f"{license}."
            if license
            else "Not stated: the folder of the base model does not contain its license, which applies here."
        )
        yield "Licenses of the training data and terms of the services that made it may apply in addition."


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
