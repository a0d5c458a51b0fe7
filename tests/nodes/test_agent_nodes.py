"""What a workflow may name, and what is refused: agents, pipelines, precisions, keys, libraries."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path

import pytest
from support.cli_calls import python
from support.fake_llama_server import MODEL, write_agent
from support.tiny_checkpoint import build_checkpoint

from interleave_thinker import ChatError, SettingsError, open_chat
from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.backend.core.remote import api_keys as keys
from interleave_thinker.nodes.inputs import named_models, validation

ROOT = Path(__file__).resolve().parents[2]


def agent(folder: Path, kind: str = "qwen3_vl", marker: str = "config.json") -> Path:
    folder.mkdir(parents=True)
    (folder / marker).write_text(json.dumps({"model_type": kind}))
    return folder


def test_agents_are_found_in_every_root_and_the_first_has_priority(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    wanted = agent(first / "Qwen3-VL-4B")
    agent(second / "Qwen3-VL-4B")
    deep = agent(second / "organisation" / "critic-8b", "qwen3_vl_moe")
    agent(second / "llama", "llama")
    agent(second / "style", marker="adapter_config.json")
    (agent(second / "broken") / "config.json").write_text("{")
    roots = [first, second, tmp_path / "missing"]
    assert named_models.agent_names(roots) == [
        "tiny world planner", "tiny world critic", "Qwen3-VL-4B", "organisation/critic-8b",
    ]  # fmt: skip
    assert named_models.agent_spec("Qwen3-VL-4B", roots) == f"transformers:{wanted}"
    assert named_models.agent_spec("organisation/critic-8b", roots) == f"transformers:{deep}"
    assert named_models.agent_spec("tiny world critic", roots) == "tinyworld:critic"
    assert named_models.adapter_names(roots) == ["none", "style"]
    assert named_models.adapter_folder("none", roots) is None
    before = named_models.weights_stamp("Qwen3-VL-4B", roots)
    assert before == named_models.weights_stamp("Qwen3-VL-4B", roots)
    (wanted / "model.safetensors").write_bytes(b"new")
    assert named_models.weights_stamp("Qwen3-VL-4B", roots) != before


def test_a_hub_name_has_priority_and_is_not_downloaded_by_default(tmp_path: Path) -> None:
    agent(tmp_path / "mine")
    agent(tmp_path / "Qwen/Qwen3-VL-4B")
    assert named_models.named_agent("mine", "", False, [tmp_path]) == "mine"
    assert named_models.named_agent("mine", " Qwen/Qwen3-VL-4B ", False, [tmp_path]) == "Qwen/Qwen3-VL-4B"
    with pytest.raises(SettingsError, match="Switch on 'download'"):
        named_models.named_agent("mine", "Qwen/other", False, [tmp_path])
    assert named_models.named_agent("mine", "Qwen/other", True, [tmp_path]) == "Qwen/other"
    with pytest.raises(SettingsError, match="not a valid Hugging Face model name"):
        named_models.named_agent("mine", "../..", True, [tmp_path])


@pytest.mark.parametrize(
    ("name", "hub_id"),
    [
        ("Qwen3-VL-4B-Instruct", "Qwen/Qwen3-VL-4B-Instruct"),
        ("InterleaveThinker-Planner-8B", "InterleaveThinker/InterleaveThinker-Planner-8B"),
        ("Somebody/My-VL.2", "Somebody/My-VL.2"),
        *((name, "") for name in ("my own", "../../etc", "/etc", "", "Qwen3-VL-4B; rm -rf", "a/b/c", "-o/x")),
        *((name, "") for name in ("a/$(b)", "Qwen/..", "../elsewhere/mine")),
    ],
)
def test_a_missing_agent_names_folders_and_command(name: str, hub_id: str, tmp_path: Path) -> None:
    agent(tmp_path / "elsewhere" / "mine")
    roots = [tmp_path / "models here", tmp_path / "there"]
    for find, kind in ((named_models.agent_spec, "agent"), (named_models.adapter_folder, "adapter")):
        with pytest.raises(SettingsError, match=f"The {kind} .* was not found") as error:
            find(name, roots)
        assert all(repr(str(root)) in str(error.value) for root in roots)
        command = f"hf download {hub_id} --local-dir '{roots[0] / name}'."
        assert (command in str(error.value)) == (bool(hub_id) and kind == "agent")
        assert hub_id or "hf download" not in str(error.value)


def test_a_prompt_set_is_chosen_among_the_existing_ones(tmp_path: Path) -> None:
    ours = default_prompt_set()
    other = ours.model_copy(update={"critic": "other words"})
    ours.save(tmp_path / "published")
    other.save(agent(tmp_path / "mine") / "prompt_set")
    ours.save(tmp_path.parent / f"{tmp_path.name}-outside")
    names = named_models.prompt_set_names([tmp_path])
    assert names == [validation.FROM_THE_AGENT, "mine", "mine/prompt_set", "published"]
    found = [named_models.prompt_set_named(name, [tmp_path]) for name in (names[0], "published", "mine")]
    assert found == [None, ours, other]
    for gone in (f"../{tmp_path.name}-outside", str(tmp_path / "published"), "", "gone"):
        with pytest.raises(SettingsError, match=r"The prompt set .* was not found"):
            named_models.prompt_set_named(gone, [tmp_path])


def test_gguf_files_are_offered_without_their_projectors_and_later_parts(tmp_path: Path) -> None:
    model = write_agent(tmp_path / "roots" / "mine")
    for name in ("big-00001-of-00002.gguf", "big-00002-of-00002.gguf", "notes.txt"):
        (tmp_path / "roots" / name).write_bytes(MODEL)
    write_agent(tmp_path, "outside.gguf")
    roots = [tmp_path / "roots"]
    offered = named_models.agent_names(roots)
    assert offered[len(named_models.BUILT_IN) :] == ["big-00001-of-00002.gguf", "mine/tiny-Q8_0.gguf"]
    assert named_models.agent_spec("mine/tiny-Q8_0.gguf", roots) == f"llamacpp:{model}"
    for gone in ("../outside.gguf", str(model), "gone.gguf"):
        with pytest.raises(SettingsError, match=r"was not found.*mmproj"):
            named_models.agent_spec(gone, roots)
    stamp = named_models.weights_stamp("mine/tiny-Q8_0.gguf", roots)
    (model.parent / "mmproj-tiny-F16.gguf").write_bytes(MODEL * 2)
    assert stamp and named_models.weights_stamp("mine/tiny-Q8_0.gguf", roots) != stamp


def pipeline(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "model_index.json").write_text("{}")
    return folder


def test_pipelines_are_found_by_name_in_every_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    wanted, deep = pipeline(first / "sd"), pipeline(second / "owner" / "model")
    pipeline(second / "sd")
    roots = [first, second, tmp_path / "missing"]
    assert named_models.pipeline_folders(roots) == {"sd": wanted, "owner/model": deep}
    assert named_models.pipeline_spec(" sd ", roots) == f"diffusers:{wanted}"
    assert named_models.pipeline_spec("owner/model", roots) == f"diffusers:{deep}"
    assert named_models.pipeline_spec("someone/else", roots) == "diffusers:someone/else"
    monkeypatch.chdir(second)
    with pytest.raises(SettingsError, match="found: sd"):
        named_models.pipeline_spec("owner/model", [first])  # a folder beside the program is no hub id


@pytest.mark.parametrize(
    "name", ["", "../secret", "..", "/etc", "a/../b", "~/models", "C:\\models", "one/two/three"]
)
def test_a_workflow_cannot_name_a_path(tmp_path: Path, name: str) -> None:
    pipeline(tmp_path / "secret")
    pipeline(tmp_path / "models" / "sd")
    with pytest.raises(SettingsError, match="found: sd"):
        named_models.pipeline_spec(name, [tmp_path / "models"])


# Precision and strictness


def missing(name: str) -> str:
    raise metadata.PackageNotFoundError(name)


@pytest.mark.parametrize(
    ("name", "precision", "adapter", "reason"),
    [
        ("tiny world critic", "fp16", "none", ""),
        ("tiny world critic", "4-bit", "none", r"do not support 4-bit.*auto"),
        ("mine", "8-bit", "none", r"bitsandbytes is not installed.*pip install"),
        ("mine", "dtype", "none", "Unknown precision"),
        ("mine.gguf", "auto", "none", ""),
        ("mine.gguf", "4-bit", "none", "Set precision to auto"),
        ("mine.gguf", "auto", "lora", r"adapter.*merge"),
    ],
)
def test_a_precision_or_adapter_that_cannot_work_is_refused_with_advice(
    name: str, precision: str, adapter: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "version", missing)
    if not reason:
        named_models.check_agent(name, precision, adapter, [tmp_path])
        return
    with pytest.raises(SettingsError, match=reason):
        named_models.check_agent(name, precision, adapter, [tmp_path])


def test_only_precisions_that_work_here_are_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_models, "find_spec", lambda name: None)
    assert named_models.precisions() == ["auto", "bf16", "fp16", "fp32"]
    monkeypatch.setattr(named_models, "find_spec", lambda name: object())
    assert named_models.precisions()[-2:] == ["8-bit", "4-bit"]


class Strict:
    """An agent with a strictness of its own."""

    accept_at = 0.8


@pytest.mark.parametrize(
    ("critic", "choice", "accept_at", "threshold"),
    [
        (Strict(), "custom", 0.0, 0.8),  # as in older workflows
        (Strict(), "custom", 0.4, 0.4),
        (object(), "custom", 0.0, None),
        (Strict(), "critic's own verdict", 0.4, None),
        (Strict(), "lenient", 0.4, 0.3),
        (None, "normal", 0.0, 0.5),
        (Strict(), "strict", 0.4, 0.8),
    ],
)
def test_the_strictness_wins(critic: object, choice: str, accept_at: float, threshold: float | None) -> None:
    assert validation.accept_at_of(critic, choice, accept_at) == threshold
    with pytest.raises(SettingsError, match=r"Unknown strictness 'mild'.*lenient.*custom"):
        validation.accept_at_of(critic, "mild", accept_at)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"<html>Please log in</html>" * 9, "a text file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1", "git lfs pull"),
        (b"PK\x03\x04" + bytes(200), "a pickle"),
        (b"", "damaged or incomplete"),
        ((10**6).to_bytes(8, "little") + b"{" + bytes(100), "damaged or incomplete"),
    ],
)
def test_a_file_without_weights_raises_before_loading(content: bytes, said: str, tmp_path: Path) -> None:
    folder = build_checkpoint(tmp_path / "agent")
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(ChatError, match=said):
        open_chat(f"transformers:{folder}")


# Keys and services


@pytest.mark.parametrize(
    ("variable", "url", "sent"),
    [
        ("MY_OWN_KEY", "http://127.0.0.1:8000/v1", "sk-secret"),
        ("MY_OWN_KEY", "https://GOOD.example/v1", "sk-secret"),
        ("OPENAI_API_KEY", "https://api.openai.com/v1", "sk-other"),
        ("", "https://evil.example/v1", None),
        ("NOT_SET_KEY", "https://evil.example/v1", None),
        ("MY_OWN_KEY", "https://evil.example/v1", "refused"),
        ("MY_OWN_KEY", "https://good.example.evil.example/v1", "refused"),
        ("MY_OWN_KEY", "https://xgood.example/good.example", "refused"),
    ],
)
def test_allowed_hosts(variable: str, url: str, sent: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_OWN_KEY", "sk-secret")
    monkeypatch.setenv("MY_OWN_KEY_HOSTS", "good.example, other.example")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    if sent != "refused":
        assert keys.key_for(variable, url) == sent
        return
    with pytest.raises(SettingsError, match=r"is not allowed to be sent to .*MY_OWN_KEY_HOSTS") as error:
        keys.key_for(variable, url)
    assert "sk-secret" not in str(error.value)


@pytest.mark.parametrize("given", ["sk-proj-abcdef0123456789", "my_key", "PATH", "A_KEY=1", "HF_TOKEN\n"])
def test_an_invalid_key_variable_is_rejected_without_reading_it(given: str) -> None:
    with pytest.raises(SettingsError, match="may be a key itself") as error:
        open_chat("openai:tiny@http://127.0.0.1/v1", key_variable=given)
    assert given not in str(error.value)


LIST = "http://a:1, http://b:2"
KEY = "secret-key"
SECURE = "https://images.example"


@pytest.mark.parametrize(
    ("urls", "key", "trusted", "goes"),
    [
        (" https://images.example ", "", "", True),
        ("http://127.0.0.1:8000", KEY, "", True),
        ("https://images.example/v1", KEY, SECURE, True),
        ("https://images.example", KEY, "", False),
        ("http://images.example", KEY, SECURE, False),
        ("https://images.example:8443", KEY, SECURE, False),
        ("https://images.example.evil.net", KEY, SECURE, False),
        # Once there is a list, also where no key could go astray; and never a file.
        ("http://a:1,http://b:2", "", LIST, True),
        ("http://b:2 , http://127.0.0.1:9", KEY, LIST, True),
        ("http://a:1,http://c:3", "", LIST, False),
        ("http://a:1,@/etc/passwd", "", LIST, False),
        *((url, "", "", False) for url in ("", "images", "file:///etc/passwd", "http://", "http://a:port")),
    ],
)
def test_a_workflow_names_only_services_that_the_owner_allows(
    urls: str, key: str, trusted: str, goes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(keys.GENERATOR_KEY, key)
    monkeypatch.setenv(keys.GENERATOR_URL, trusted)
    if goes:
        assert keys.check_services(urls) == ",".join(url.strip() for url in urls.split(","))
        return
    with pytest.raises(SettingsError) as error:
        keys.check_services(urls)
    assert KEY not in str(error.value)


def test_a_service_without_the_key_is_limited_only_by_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(keys.GENERATOR_KEY, "secret-key")
    monkeypatch.delenv(keys.GENERATOR_URL, raising=False)
    assert keys.check_services("https://a.example", gets_key=False) == "https://a.example"
    monkeypatch.setenv(keys.GENERATOR_URL, "http://b:2")
    with pytest.raises(SettingsError, match=r"a\.example is not one of the services"):
        keys.check_services("https://a.example", gets_key=False)


# Libraries and hosts that are broken or too old


@pytest.mark.parametrize(
    ("installed", "found"), [("0.1", "peft 0.1 is too old"), ("", "peft is not installed")]
)
def test_a_missing_library_is_named(installed: str, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "version", (lambda name: installed) if installed else missing)
    with pytest.raises(SettingsError, match=f"{found}.*{validation.REASONS['peft']}") as error:
        validation.check_library("peft")
    assert f'{sys.executable}" -m pip install "peft>=' in str(error.value) and "\n" not in str(error.value)


def test_an_incompatible_torchvision_gives_a_one_line_error() -> None:
    with (
        pytest.raises(SettingsError, match=r"torchvision.*nms.*repairs them.*--upgrade") as error,
        validation.require_library("transformers", "torchvision"),
    ):
        raise RuntimeError("operator torchvision::nms does not exist\nand a long trace")
    assert "\n" not in str(error.value)


HOST_STUB = """
import importlib.util, sys, types
sys.modules["folder_paths"] = types.ModuleType("folder_paths")
sys.modules["comfyui_version"] = types.ModuleType("comfyui_version")
sys.modules["comfyui_version"].__version__ = "0.3.64"
if {v3}:
    latest = types.ModuleType("comfy_api.latest")
    class io:
        class Schema:
            def __init__(self, node_id, display_name=None): ...
    latest.io, latest.ComfyExtension = io, object
    sys.modules["comfy_api"] = types.ModuleType("comfy_api")
    sys.modules["comfy_api.latest"] = latest
else:
    sys.modules["comfy_api"] = None
spec = importlib.util.spec_from_file_location("a_pack", "__init__.py", submodule_search_locations=["."])
pack = importlib.util.module_from_spec(spec)
sys.modules["a_pack"] = pack
try:
    spec.loader.exec_module(pack)
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize("v3", [True, False])
def test_a_host_that_is_too_old_is_told_when_the_pack_loads(v3: bool) -> None:
    answer = python(HOST_STUB.format(v3=v3), cwd=ROOT)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip().startswith(
        "InterleaveThinker needs ComfyUI 0.14.0 or newer; this is 0.3.64. Update"
    )
