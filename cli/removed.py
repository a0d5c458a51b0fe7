"""Former commands and options: the error names the last release that had them."""

from __future__ import annotations

import re

from ..backend.core.errors import SettingsError

LAST_RELEASE = "0.3.0"
BENCHMARKS = ("tinyworld", "ueval", "comm", "wise", "rise", "specv")
_OF_MANY_RUNS = "--critic-notes --stop-after --prices --budget --estimate --ray --workers"
_REMOVED = {
    "": "parity feedback put-back",
    "doctor": "--agent",
    "serve": (
        "check nginx --register --advertise --echo --models-each --target-ongoing "
        "--upscale-seconds --downscale-seconds"
    ),
    "redraw": "--attempt",
    "clips": "--critic --critic-adapter --critic-frames --max-attempts",
    "demo": "--critic-notes",
    "judge": "--critic-notes",
    "app": "--critic-notes --draw-ahead",
    "cast sheets": "--critic-notes --draw-ahead",
    "benchmark": "judge-bridge vistory",
    "benchmark collect": "--link",
    "benchmark score": "--repeats --order-swap --silence --judge-dtype --judge-device --judge-quantization",
    "benchmark compare": "--page",
    "run": "--critic-notes --draw-ahead --requests --parallel --approve-after",
    "export": "--narration",
    "evaluate": "own-critic scorer tinyworld",
    "evaluate ablation": "--teacher-seeds --with --failed --next-step-stories",
    "data": "pairs critic-pairs planner-pairs inspect guard pack",
    "data prompts": "--variants --words --taxonomy --language --polish --polish-language --guard",
    "data filter": "--show --corrections --words --ray --workers --keep-labelled --guard",
    "data from-runs": "--guard --keep-labelled",
    "data planner-rows": (
        "--outside --outside-limit --tokenizer --max-length --think --ray --workers --teacher "
        "--parallel --guard"
    ),
    "data sequences": "--parallel --ray --workers --published-quirks --guard",
    "data planner-rl": "--guard",
    "data tinyworld-planner-rl": "--wording",
    "evaluate critic": "--critic-notes --items",
    "train": "critic-dpo planner-dpo doctor tinyworld-base tinyworld-critic tinyworld-generator "
    "tinyworld-planner",
    "train critic-sft": "--samples --sample-tokens",
    "train planner-sft": "--samples --sample-tokens",
    "train own-critic": "--samples --sample-tokens --keep-labelled",
    "train finish": "--trust-command",
    "train merge": "--shard --compare-rows --compare-data --compare-tokens",
    "train publish": "--to --with-report",
    "train critic-grpo": "--turns --stop-weight --thrift-weight --right-at",
    "train planner-grpo": (
        "--generator --scorer --cache --executed-weight --executed-steps --take-turns "
        "--parallel-image-scores --draw-batch --parallel-draws --draw-seconds --max-draws"
    ),
    **{f"benchmark {name}": _OF_MANY_RUNS for name in BENCHMARKS},
    "data trajectories": f"{_OF_MANY_RUNS} --guard",
}
"""Command (empty: the program itself): its subcommands and options that are gone."""
REMOVED = {command: tuple(names.split()) for command, names in _REMOVED.items()}
REMOVED_NAMES: dict[str, tuple[str, ...]] = {
    "scorer": (
        *("judge-v1", "editscore", "unifiedreward", "rationalrewards", "similarity", "lettering", "pairwise"),
        *("mean", "min", "repeat"),
    ),
    "setting": (
        *("enabled", "inline_layers", "vision_bytes", "prompt_lookup_tokens", "linear_patches"),
        *("merge_critic", "critic.merge_critic", "encodings_bytes", "encoding_cache.encodings_bytes"),
    ),
}
"""Kind of a registry: its built-in names that are gone."""


def removed(command: str, name: str) -> SettingsError | None:
    """Return the error for a subcommand or option of a command, or None if it was never there."""
    if name not in REMOVED.get(command, ()):
        return None
    return _gone(f"{command} {name}".strip())


def removed_name(kind: str, name: str) -> SettingsError | None:
    """Return the error for a built-in name of a registry, or None if it was never there."""
    return _gone(f"{kind} {name}") if name in REMOVED_NAMES.get(kind, ()) else None


def _gone(what: str) -> SettingsError:
    return SettingsError(f"`{what}` was removed. It was available up to {LAST_RELEASE}.", "See CHANGELOG.md.")


def of_error(error: Exception) -> SettingsError | None:
    """Return the error for the unknown subcommand, option or registered name that an error is about."""
    message = str(getattr(error, "message", ""))
    unknown = re.match(r"Unknown ([\w ]+) '([\w.-]+)'", message)
    if unknown is not None and (gone := removed_name(*unknown.groups())):
        return gone
    context = getattr(error, "ctx", None)
    found = re.match(r"No such (?:command|option):? '?([\w-]+)", message)
    if context is None or found is None:
        return None
    _, _, command = context.command_path.partition(" ")
    name = found.group(1)
    return removed(command, name) or removed(command, f"--{name.removeprefix('--no-')}")
