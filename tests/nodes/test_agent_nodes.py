"""Parts of the agent nodes without ComfyUI: names, precisions, strictness, keys, adapters, libraries."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from importlib import metadata
from pathlib import Path

import pytest
from support.chat_server import chat_server
from support.fake_llama_server import MODEL, write_agent
from support.tiny_checkpoint import PLAIN, build_adapter, build_checkpoint, question

from interleave_thinker.backend.core.errors import Cancelled, ChatError, SettingsError
from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.backend.core.remote import api_keys as keys
from interleave_thinker.backend.models.chat import Message, ReplySettings, open_chat
from interleave_thinker.nodes.inputs import named_models, validation

ROOT = Path(__file__).resolve().parents[2]
ASK = [Message(role="user", content=("A boat?",))]
MISSING = metadata.PackageNotFoundError


# Names


def folder_of(root: Path, name: str, kind: str = "qwen3_vl") -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    return folder


def test_a_hub_name_has_priority_and_is_not_downloaded_by_default(tmp_path: Path) -> None:
    folder_of(tmp_path, "mine")
    folder_of(tmp_path, "Qwen/Qwen3-VL-4B")
    assert named_models.named_agent("mine", "", False, [tmp_path]) == "mine"
    assert named_models.named_agent("mine", " Qwen/Qwen3-VL-4B ", False, [tmp_path]) == "Qwen/Qwen3-VL-4B"
    with pytest.raises(SettingsError, match="Switch on 'download'"):
        named_models.named_agent("mine", "Qwen/other", False, [tmp_path])
    assert named_models.named_agent("mine", "Qwen/other", True, [tmp_path]) == "Qwen/other"
    with pytest.raises(SettingsError, match="not a valid Hugging Face model name"):
        named_models.named_agent("mine", "../..", True, [tmp_path])


def test_a_missing_agent_or_adapter_names_the_folder_and_its_contents(tmp_path: Path) -> None:
    for find, kind in ((named_models.agent_spec, "agent"), (named_models.adapter_folder, "adapter")):
        with pytest.raises(SettingsError, match=f"The {kind} 'gone' was not found") as error:
            find("gone", [tmp_path / "here", tmp_path / "there"])
        assert repr(str(tmp_path / "here")) in str(error.value)
        assert repr(str(tmp_path / "there")) in str(error.value)


def test_a_missing_hub_agent_raises_with_the_download_command(tmp_path: Path) -> None:
    for name, hub_id in (
        ("Qwen3-VL-4B-Instruct", "Qwen/Qwen3-VL-4B-Instruct"),
        ("Somebody/My-VL.2", "Somebody/My-VL.2"),
    ):
        with pytest.raises(SettingsError) as error:
            named_models.agent_spec(name, [tmp_path / "models here"])
        assert f"hf download {hub_id} --local-dir '{tmp_path / 'models here' / name}'." in str(error.value)
    for name in ("my own", "../../etc", "Qwen3-VL-4B; rm -rf", "a/b/c", "a/$(b)", "Qwen/..", "-o/x"):
        with pytest.raises(SettingsError) as error:
            named_models.agent_spec(name, [tmp_path])
        assert "hf download" not in str(error.value)


def test_a_prompt_set_is_chosen_among_the_existing_ones(tmp_path: Path) -> None:
    ours = default_prompt_set()
    other = ours.model_copy(update={"critic": "other words"})
    ours.save(tmp_path / "published")
    other.save(folder_of(tmp_path, "mine") / "prompt_set")
    ours.save(tmp_path.parent / f"{tmp_path.name}-outside")
    names = named_models.prompt_set_names([tmp_path])
    assert names == [validation.FROM_THE_AGENT, "mine", "mine/prompt_set", "published"]
    assert named_models.prompt_set_named(validation.FROM_THE_AGENT, [tmp_path]) is None
    assert named_models.prompt_set_named("published", [tmp_path]) == ours
    assert named_models.prompt_set_named("mine", [tmp_path]) == other
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


# Precision and strictness


def test_a_gguf_file_has_its_own_format_and_no_adapter() -> None:
    named_models.check_gguf("auto", "none")
    with pytest.raises(SettingsError, match="Set precision to auto"):
        named_models.check_gguf("4-bit", "none")
    with pytest.raises(SettingsError, match=r"adapter.*merge"):
        named_models.check_gguf("auto", "mine")


def test_only_precisions_that_work_here_are_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_models, "find_spec", lambda name: None)
    assert named_models.precisions() == ["auto", "bf16", "fp16", "fp32"]
    monkeypatch.setattr(named_models, "find_spec", lambda name: object())
    assert named_models.precisions()[-2:] == ["8-bit", "4-bit"]


def test_an_impossible_precision_raises_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    named_models.check_precision("fp16", built_in=True)
    with pytest.raises(SettingsError, match=r"do not support 4-bit.*auto"):
        named_models.check_precision("4-bit", built_in=True)

    def missing(name: str) -> str:
        raise MISSING(name)

    monkeypatch.setattr(validation, "version", missing)
    with pytest.raises(SettingsError, match=r"bitsandbytes is not installed.*pip install"):
        named_models.check_precision("8-bit", built_in=False)
    with pytest.raises(SettingsError, match="Unknown precision"):
        named_models.check_precision("dtype", built_in=False)


class Strict:
    """An agent with a strictness of its own."""

    accept_at = 0.8


def test_a_custom_threshold_wins_over_the_agents_strictness_as_in_older_workflows() -> None:
    custom = validation.CUSTOM
    assert validation.accept_at_of(Strict(), custom, 0.0) == 0.8
    assert validation.accept_at_of(Strict(), custom, 0.4) == 0.4
    assert validation.accept_at_of(object(), custom, 0.0) is None
    assert validation.accept_at_of(None, custom, 0.0) is None


@pytest.mark.parametrize(
    ("choice", "threshold"),
    [("critic's own verdict", None), ("lenient", 0.3), ("normal", 0.5), ("strict", 0.8)],
)
def test_a_strictness_of_the_loop_wins_over_everything_else(choice: str, threshold: float | None) -> None:
    assert validation.accept_at_of(Strict(), choice, 0.4) == threshold
    assert validation.accept_at_of(None, choice, 0.0) == threshold


def test_an_unknown_strictness_is_an_error_with_the_choices() -> None:
    with pytest.raises(SettingsError, match=r"Unknown strictness 'mild'.*lenient.*custom"):
        validation.accept_at_of(None, "mild", 0.0)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_checkpoint(tmp_path_factory.mktemp("agents") / "tiny")


@pytest.fixture(scope="module")
def adapters(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    parent = tmp_path_factory.mktemp("adapters")
    return [build_adapter(checkpoint, parent / f"{seed}", seed, 0.5) for seed in (1, 2)]


def test_built_in_agents_accept_plain_precisions_and_adapters(adapters: list[Path]) -> None:
    assert ":bfloat16" in open_chat("tinyworld:critic", dtype="bfloat16", adapter=None).identity
    with pytest.raises(ChatError, match="does not fit this base"):
        open_chat("tinyworld:critic", adapter=str(adapters[0]))


def test_forgotten_weights_and_adapters_are_read_again(checkpoint: Path, adapters: list[Path]) -> None:
    base = f"transformers:{checkpoint}"
    chats = [open_chat(base), *(open_chat(base, adapter=str(adapter)) for adapter in adapters)]
    before = [chat.reply(question(240), PLAIN).text for chat in chats]
    assert len(set(before)) == 3
    chats[0].base.release()
    assert chats[0].model is None
    assert [chat.reply(question(240), PLAIN).text for chat in chats] == before
    chats[0].base.release()
    assert [chat.reply(question(240), PLAIN).text for chat in chats[::-1]] == before[::-1]


# Files that do not contain weights


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"<html>Please log in</html>" * 9, "a text file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1", "git lfs pull"),
        (b"PK\x03\x04" + bytes(200), "a pickle"),
        (b"\x80\x02}q\x00" + bytes(200), "a pickle"),
        (b"", "damaged or incomplete"),
        ((10**6).to_bytes(8, "little") + b"{" + bytes(100), "damaged or incomplete"),
    ],
)
def test_a_file_without_weights_raises_before_loading(
    content: bytes, said: str, tmp_path: Path, checkpoint: Path
) -> None:
    folder = tmp_path / "agent"
    shutil.copytree(checkpoint, folder)
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(ChatError, match=said):
        open_chat(f"transformers:{folder}")


# Keys and servers


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MY_OWN_KEY", "sk-secret")
    return "MY_OWN_KEY"


def test_a_key_is_sent_only_to_the_allowed_hosts(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert keys.key_for(key, "http://127.0.0.1:8000/v1") == "sk-secret"
    assert keys.key_for("", "https://evil.example/v1") is None
    assert keys.key_for("NOT_SET_KEY", "https://evil.example/v1") is None
    with pytest.raises(
        SettingsError, match=r"MY_OWN_KEY is not allowed to be sent to evil\.example.*MY_OWN_KEY_HOSTS"
    ) as error:
        keys.key_for(key, "https://evil.example/v1")
    assert "sk-secret" not in str(error.value)
    monkeypatch.setenv("MY_OWN_KEY_HOSTS", "good.example, other.example")
    assert keys.key_for(key, "https://GOOD.example/v1") == "sk-secret"
    for url in (
        "https://good.example.evil.example/v1",
        "https://evil.example/good.example",
        "https://xgood.example",
    ):
        with pytest.raises(SettingsError):
            keys.key_for(key, url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    assert keys.key_for("OPENAI_API_KEY", "https://api.openai.com/v1") == "sk-other"


@pytest.mark.parametrize(
    "given", ["sk-proj-abcdef0123456789", "AIzaSyD-1234567890", "my_key", "PATH", "A_KEY=1", "HF_TOKEN\n"]
)
def test_an_invalid_key_variable_is_rejected_without_reading_it(given: str) -> None:
    with pytest.raises(SettingsError, match="may be a key itself") as error:
        open_chat("openai:tiny@http://127.0.0.1/v1", key_variable=given)
    assert given not in str(error.value)


def test_only_the_named_key_is_sent_in_the_header(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    with chat_server("Ahoy.") as server:
        open_chat(f"openai:{server.spec}", key_variable=key).reply(ASK, ReplySettings())
        open_chat(f"openai:{server.spec}", key_variable="").reply(ASK, ReplySettings())
    assert server.headers_seen[0]["authorization"] == "Bearer sk-secret"
    assert "authorization" not in server.headers_seen[1]


def test_stopping_while_a_server_is_silent_hangs_up() -> None:
    with chat_server("Ahoy.") as server:
        server.silent_seconds = 30.0
        chat = open_chat(f"openai:{server.spec}", timeout=60.0)
        started, threads = time.monotonic(), threading.active_count()

        def stop(text: str) -> None:
            assert text == ""
            if time.monotonic() - started > 0.5:
                raise Cancelled("Stopped.")

        with pytest.raises(Cancelled):
            chat.reply(ASK, ReplySettings(), stop)
        assert time.monotonic() - started < 20, "far less than the server would have been silent"
        assert server.hung_up.wait(20), "the connection is closed so that the server can stop"
        server.silent_seconds = 0.0
        assert chat.reply(ASK, ReplySettings(), lambda text: None).text == "Ahoy."
    deadline = time.monotonic() + 20
    while threading.active_count() > threads and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() <= threads


def test_stopping_between_retries_does_not_wait_for_them() -> None:
    with chat_server("Ahoy.") as server:
        server.faults = [(503, b"busy")] * 9

        def stop(text: str) -> None:
            raise Cancelled("Stopped.")

        with pytest.raises(Cancelled):
            open_chat(f"openai:{server.spec}").reply(ASK, ReplySettings(), stop)
        assert len(server.requests) <= 1, "a retry was sent after the stop"


# Broken libraries


@pytest.mark.parametrize(
    "library", ["transformers", "torchvision", "peft", "huggingface-hub", "httpx", "fpdf2"]
)
def test_each_library_states_its_purpose(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "version", lambda name: "0.1")
    with pytest.raises(
        SettingsError, match=f"{library} 0.1 is too old.*{validation.REASONS[library]}"
    ) as error:
        validation.check_library(library)
    assert f'-m pip install "{library}>=' in str(error.value) and "\n" not in str(error.value)


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
spec.loader.exec_module(pack)
node = pack.NODE_CLASS_MAPPINGS["InterleaveCriticLoop"]
assert pack.NODE_DISPLAY_NAME_MAPPINGS["InterleaveCriticLoop"] == "Critic Loop"
assert node.INPUT_TYPES() == dict(required=dict())
assert not (node.RETURN_TYPES[0] != "IMAGE")
try:
    getattr(node(), node.FUNCTION)(plan=1)
except RuntimeError as error:
    print(error)
"""


@pytest.mark.parametrize("v3", [True, False])
def test_every_node_reports_a_host_that_is_too_old(v3: bool) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", HOST_STUB.format(v3=v3)], cwd=ROOT, capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip().startswith(
        "InterleaveThinker needs ComfyUI 0.14.0 or newer; this is 0.3.64. Update"
    )


def test_stand_ins_exist_only_in_a_host() -> None:
    import interleave_thinker

    assert not hasattr(interleave_thinker, "NODE_CLASS_MAPPINGS")
