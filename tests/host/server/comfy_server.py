"""A real ComfyUI for the tests: one server process on the CPU in its own base directory, used over HTTP.

Nothing of the host is imported, so the tests run in the project's environment and the host in its own. The
server is found by COMFYUI_PATH, then ~/comfy/ComfyUI; its Python by COMFYUI_PYTHON, then a venv inside it;
another front end by COMFYUI_FRONT_END_ROOT.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx
from PIL import Image
from support.host_home import HostHome

ROOT = Path(__file__).resolve().parents[3]
SHIM_PACK = Path(__file__).parents[1] / "shim_pack"
PACK = "interleave-thinker"
ROUTE = "/interleave-thinker"
BOOT_SECONDS = 300.0
NO_SCAN = "--disable-assets-autoscan"
EXTRA_PATHS = "extra_model_paths.yaml"


@cache
def known_options(home: HostHome) -> frozenset[str]:
    """The options of this host's command line, as it names them itself."""
    shown = subprocess.run(
        [str(home.python), "main.py", "--help"], cwd=home.folder, capture_output=True, text=True, check=True
    )
    return frozenset(re.findall(r"--[a-z0-9-]+", shown.stdout))


class HostError(AssertionError):
    """The host rejected or failed a prompt; `details` is its response."""

    def __init__(self, message: str, details: Any = None) -> None:
        super().__init__(message)
        self.details = details


class ComfyServer:
    """One running server. `start` once, `run` prompts, `stop` at the end."""

    def __init__(self, home: HostHome, base: Path, *more: str, api_nodes: bool = False) -> None:
        """`more`: further options of the host's command line. `api_nodes`: with the host's hosted nodes."""
        self.home, self.base = home, base
        self.more = more if api_nodes else ("--disable-api-nodes", *more)
        self.url = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._http = httpx.Client(timeout=60.0)

    @property
    def llama_server(self) -> Path:
        """The program that agents in GGUF are run by, should a test have put it there."""
        return self.base / "llama" / "llama-server"

    def start(self) -> None:
        """Start the server and wait until it answers.

        The first time it gets a fresh base directory with this pack and the test shim.
        """
        if not self.base.exists():
            self.lay_out()
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        command = [
            str(self.home.python), "main.py", "--cpu", "--listen", "127.0.0.1", "--port", str(port),
            "--base-directory", str(self.base), "--disable-auto-launch",
            "--database-url", f"sqlite:///{self.base / 'host.db'}",
            "--extra-model-paths-config", str(self.base / EXTRA_PATHS), *self.more,
        ]  # fmt: skip
        # Newer hosts look for assets only on request, and do not know the option.
        if NO_SCAN in known_options(self.home):
            command.append(NO_SCAN)
        if self.home.front_end is not None:
            command += ["--front-end-root", str(self.home.front_end)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1"}
        # Where a test may put a stand-in for llama.cpp's server.
        environment["LLAMA_SERVER"] = str(self.llama_server)
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self.home.folder, env=environment, stdout=log, stderr=subprocess.STDOUT
            )
        self._await_answer()

    def kill(self) -> None:
        """Kill the server process without cleanup, as in a crash."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(timeout=10)

    def lay_out(self) -> None:
        """Create the base directory with pack, test shim and settings; `start` calls it if needed."""
        packs = self.base / "custom_nodes"
        packs.mkdir(parents=True)
        (packs / PACK).symlink_to(ROOT, target_is_directory=True)
        shutil.copytree(SHIM_PACK, packs / "zz_tiny_weights")
        settings = self.base / "user" / "default" / "comfy.settings.json"
        settings.parent.mkdir(parents=True)
        chosen = {"Comfy.TutorialCompleted": True, "Comfy.Locale": "en", "Comfy.Minimap.Visible": False}
        settings.write_text(json.dumps(chosen))
        (self.base / EXTRA_PATHS).write_text(
            "elsewhere:\n  base_path: elsewhere\n  interleave_agents: agents\n"
        )

    def _await_answer(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + BOOT_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise HostError(f"The host ended while starting.\n{self.log_tail()}")
            try:
                if self._http.get(f"{self.url}/system_stats").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.2)
        raise HostError(f"The host did not answer within {BOOT_SECONDS:.0f} s.\n{self.log_tail()}")

    def stop(self) -> None:
        """End the server process."""
        self._http.close()
        if self._process and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(timeout=10)

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        assert self._process is not None
        return self._process.pid

    @property
    def log_path(self) -> Path:
        return self.base / "host.log"

    def log_tail(self, lines: int = 60) -> str:
        """The last lines that the server wrote."""
        return "\n".join(self.log().splitlines()[-lines:])

    def get(self, path: str, **query: Any) -> Any:
        """GET a JSON document of the server."""
        return self.answer(path, **query).raise_for_status().json()

    def answer(self, path: str, **query: Any) -> httpx.Response:
        """GET anything from the server."""
        return self._http.get(self.url + path, params=query or None)

    def ask(self, name: str, **query: Any) -> Any:
        """GET one of the pack's routes."""
        return self.get(f"{ROUTE}/{name}", **query)

    def tell(self, name: str, **body: Any) -> httpx.Response:
        """POST to one of the pack's routes."""
        return self.post(f"{ROUTE}/{name}", body)

    def inputs_of(self, kind: str) -> dict[str, Any]:
        """The declarations of a node's inputs by name."""
        declared = self.get(f"/object_info/{kind}")[kind]["input"]
        return {**declared.get("required", {}), **declared.get("optional", {})}

    def log(self) -> str:
        """Everything that the server wrote."""
        return self.log_path.read_text(errors="replace")

    def free(self) -> None:
        """Press the host's button that unloads models and frees its caches, before the next prompt."""
        self.post("/free", {"unload_models": True, "free_memory": True}).raise_for_status()
        # One prompt may overtake the button, a second one cannot.
        text = {"class_type": "PreviewAny", "inputs": {"source": "after the button"}}
        self.run({"text": text})

    def post(self, path: str, body: Any = None) -> httpx.Response:
        """POST JSON to the server."""
        return self._http.post(self.url + path, json=body)

    def queue(self, prompt: dict[str, Any]) -> str:
        """Queue a prompt in API form; raises HostError with the node errors if the host rejects it."""
        answer = self.post("/prompt", {"prompt": prompt, "client_id": "tests"})
        if answer.status_code != 200:
            raise HostError(f"The host refused the prompt: {answer.text[:2000]}", answer.text)
        return answer.json()["prompt_id"]

    def wait(self, prompt_id: str, seconds: float = 180.0) -> dict[str, Any]:
        """Wait until a queued prompt has ended, successfully or not, and return its history entry."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            entry = self.get(f"/history/{prompt_id}").get(prompt_id)
            if entry:
                return entry
            time.sleep(0.05)
        raise HostError(f"The prompt did not end within {seconds:.0f} s.\n{self.log_tail()}")

    def run(self, prompt: dict[str, Any], seconds: float = 180.0) -> dict[str, Any]:
        """Run a prompt and return its outputs by node id.

        Raises:
            HostError: It failed; with the host's message.
        """
        entry = self.wait(self.queue(prompt), seconds)
        if entry["status"]["status_str"] != "success":
            failures = [body for kind, body in entry["status"]["messages"] if kind.startswith("execution_")]
            failure = failures[-1] if failures else {}
            raise HostError(
                f"{failure.get('node_type')}: {failure.get('exception_message', entry['status'])}", failure
            )
        return entry["outputs"]

    def image(self, reference: dict[str, str]) -> Image.Image:
        """An image that an output names (filename, subfolder, type)."""
        return self.download("/view", reference)

    def download(self, path: str, query: dict[str, str] | None = None) -> Image.Image:
        """An image that the server serves."""
        return Image.open(io.BytesIO(self.answer(path, **(query or {})).raise_for_status().content))

    def put_input(self, image: Image.Image, name: str) -> str:
        """Make an image selectable in LoadImage; returns its name."""
        folder = self.base / "input"
        folder.mkdir(exist_ok=True)
        image.save(folder / name)
        return name


@contextmanager
def running(server: ComfyServer) -> Iterator[ComfyServer]:
    """Start a server, and stop it at the end."""
    try:
        server.start()
        yield server
    finally:
        server.stop()


def free_port() -> int:
    """A TCP port that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
