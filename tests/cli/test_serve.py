"""`interleave-thinker serve` as a process: options, startup and shutdown."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

pytest.importorskip("fastapi", reason='a service needs: pip install ".[serve]"')

from support.ray_here import ON_RAY, importable
from support.running_service import wait_until
from support.serve_process import CALL, is_alive, serving

from interleave_thinker import GeneratorError, Picture, SettingsError, open_generator
from interleave_thinker.backend.core.remote.server import certificates
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.cli.commands.serve import name_of
from interleave_thinker.service.settings import MAX_DEVICES, devices_in, models_in


def test_sigterm_ends_it_after_the_current_images(tmp_path: Path) -> None:
    """The images are large, so that one is being generated when the signal comes."""
    with serving(tmp_path, "--generator", "fake:2048", "--devices", "cpu") as (process, (url,)):
        wait_until(lambda: is_alive(url))
        worker = httpx.get(f"{url}/status").json()
        assert worker["active_workers"] == 1
        with ThreadPoolExecutor(4) as clients:
            asked = [
                clients.submit(httpx.post, f"{url}/edit", json={"prompt": "a", "seed": seed}, timeout=60)
                for seed in range(4)
            ]
            wait_until(lambda: httpx.get(f"{url}/status").json()["pending_tasks"] > 0)
            process.send_signal(signal.SIGTERM)
            answers = [one.result() for one in asked]
        assert process.wait(30) == 0
        for seed, answer in enumerate(answers):
            # A request that was not read when the signal came gets an error.
            if answer.status_code == 200:
                drawn = Picture.from_base64(answer.json()["edited_image"])
                assert drawn == FakeGenerator(2048).draw("a", None, seed)
            else:
                assert answer.status_code == 503 and answer.json()["success"] is False
        assert any(answer.status_code == 200 for answer in answers)


def test_incomplete_headers_do_not_block_clients_or_fill_the_log(tmp_path: Path) -> None:
    """There are more of them than files that the service may open, mixed with garbage."""
    options = ("--generator", "fake:16", "--devices", "cpu", "--set", "header_seconds=1")
    with serving(tmp_path, *options, files=128) as (_, (url,)), ExitStack() as attack:
        wait_until(lambda: is_alive(url))
        place = urlsplit(url)
        for number in range(400):
            one = attack.enter_context(socket.create_connection((place.hostname, place.port), timeout=60))
            one.sendall(b"POST /edit HTTP/1.1\r\nX-Half: " if number % 2 else b"garbage\r\n\r\n")
        wait_until(lambda: is_alive(url))
        for seed in range(3):
            answer = httpx.post(f"{url}/edit", json={"prompt": "a", "seed": seed}, timeout=60)
            assert answer.status_code == 200, answer.text
    assert (tmp_path / "log").stat().st_size < 5000


@ON_RAY
def test_several_devices_start_replicas_that_end_with_the_service(tmp_path: Path) -> None:
    options = ("--devices", "cpu,cpu", "--set", "replica_cpus=0.1")
    with serving(tmp_path, "--generator", "fake:32", *options) as (process, (url,)):
        wait_until(lambda: is_alive(url) and httpx.get(f"{url}/health").json()["workers"]["alive"] == 2)
        assert open_generator(url).draw("a", None, 1) == FakeGenerator(32).draw("a", None, 1)
        children = children_of(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert children
        wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children), 20)


def children_of(pid: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
        except OSError:
            continue
        if re.search(rf"^PPid:\t{pid}$", text, re.MULTILINE):
            found.append(int(status.parent.name))
    return found


def test_a_file_lists_several_models_and_options_override_it(tmp_path: Path) -> None:
    config = tmp_path / "service.yaml"
    config.write_text(
        "queue: 7\nper-client: 5\nmodels:\n  klein: 'fake:16'\n  other: {generator: fake, options: {size: "
        "32}, devices: [cpu]}\n"
    )
    with serving(tmp_path, "--config", str(config), "--queue", "9") as (_, (url,)):
        names = [one["id"] for one in httpx.get(f"{url}/v1/models").json()["data"]]
        assert names == ["klein", "other"]


NONE = ("absent", "empty")
"""Models that cannot be opened."""
NO_HOST = "\N{LATIN SMALL LETTER E WITH ACUTE}" * 80
"""Longer than a label of a host name, for which Python raises other errors than OSError."""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], "--generator SPEC"),
        (["--generator", "nope"], "Unknown generator 'nope'"),
        (["--generator", "fake", "--devices", "0,1"], 'pip install ".[ray]"'),
        (["--generator", "fake", "--set", "min_replicas=2"], "needs a Ray cluster"),
        (["--generator", "fake", "--host", "0.0.0.0"], "INTERLEAVE_SERVICE_KEY"),
        (["--generator", "fake", "--steps", "3"], "does not support the setting 'steps'"),
        (["--generator", "fake", "--key-env", "sk-secret"], "may be a key itself"),
        (["--generator", "fake", "--open", "--host", NO_HOST], "cannot listen"),
        (["--generator", "fake", "--published-ports"], "none of the models has a port"),
        (["--generator", "fake", "--set", "certificate=no.pem"], "no.pem"),
        (["--config", "absent.yaml"], "absent.yaml"),
        (["--config", "x.yaml", "--generator", "fake"], "generator cannot be combined with --config"),
    ],
)
def test_a_usage_error_gives_one_line(
    options: list[str], expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from interleave_thinker.cli import main

    monkeypatch.delenv("INTERLEAVE_SERVICE_KEY", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    monkeypatch.setattr(sys, "argv", ["interleave-thinker", "serve", *options])
    with pytest.raises(SystemExit) as end:
        main()
    error = capsys.readouterr().err
    assert end.value.code == 2 and expected in error and "Traceback" not in error
    assert "sk-secret" not in error


def test_a_model_that_cannot_be_loaded_ends_the_service(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    models = {name: f"  {name}: {{generator: 'fake:{name}', devices: [cpu]}}\n" for name in NONE}
    (tmp_path / "service.yaml").write_text("models:\n" + "".join(models.values()))
    with importable(tmp_path / "package"):
        command = [sys.executable, "-c", CALL, "serve", "--port", "0", "--config", "service.yaml"]
        ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=240)
    assert ended.returncode == 2
    assert "No model can be loaded" in ended.stderr and all(name in ended.stderr for name in NONE)
    assert "Traceback" not in ended.stderr and "Restarting" not in ended.stderr


def test_models_of_a_file_use_the_gpus_in_order(tmp_path: Path) -> None:
    file = tmp_path / "service.yaml"
    file.write_text(
        "timeout: 60\nmodels:\n  a: {generator: fake, devices: 2}\n"
        "  b: {generator: fake, devices: 1, port: 9000}\n"
    )
    settings, (a, b) = models_in(file)
    assert settings == {"timeout": 60}
    assert a.devices == ("cuda:0", "cuda:1") and b.devices == ("cuda:2",) and b.port == 9000


@pytest.mark.parametrize(
    "text",
    [
        "models: {}",
        "models: {a: {}}",
        "models: {a: {generator: fake, surprise: 1}}",
        "models: {'../a': fake}",
        "models: {a: {generator: fake, devices: 1000}}",
        "models: {a: {generator: fake, options: {x: [1]}}}",
        "models: !!python/object/apply:os.system [ls]",
        "a: &a [x,x]\nb: [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nmodels: {a: fake}",
    ],
)
def test_an_invalid_file_gives_one_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "service.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError):
        models_in(file)


def test_devices_and_names_are_parsed() -> None:
    assert devices_in("0,1, cpu") == ("cuda:0", "cuda:1", "cpu")
    for wrong in ("", " , ", ",".join(["cpu"] * (MAX_DEVICES + 1))):
        with pytest.raises(SettingsError):
            devices_in(wrong)
    assert name_of("diffusers:/models/FLUX.2-klein-4B/") == "FLUX.2-klein-4B"
    assert name_of("tinyworld") == "tinyworld" and name_of("diffusers:../") == "diffusers"
    assert name_of("fake:96") == "fake" and name_of("images:a/painter@http://here:80") == "painter"


def signed_certificate(folder: Path) -> dict[str, str]:
    """Return the paths of a certificate of this machine, its key, and the authority that signed it."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the program openssl")
    new = "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    for command in (
        f"{new} -x509 -keyout ca.key -out ca.pem -days 2 -subj /CN=authority -addext keyUsage=keyCertSign",
        f"{new} -keyout key.pem -out asked.csr -subj /CN=service",
        "x509 -req -in asked.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out cert.pem -extfile names",
    ):
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)
    return {name: str(folder / f"{name}.pem") for name in ("cert", "key", "ca")}


def test_a_private_authority_is_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = signed_certificate(tmp_path)
    options = ("--set", f"certificate={files['cert']}", "--set", f"certificate_key={files['key']}")
    with serving(tmp_path, "--generator", "fake:32", "--devices", "cpu", *options) as (_, (url,)):
        assert url.startswith("https://127.0.0.1:")
        try:
            monkeypatch.delenv("SSL_CERT_FILE", raising=False)
            certificates.cache_clear()
            with pytest.raises(GeneratorError, match="CERTIFICATE_VERIFY_FAILED") as refused:
                open_generator(url)
            assert "SSL_CERT_FILE" in refused.value.hint
            monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "names"))
            certificates.cache_clear()
            with pytest.raises(SettingsError, match="Cannot read certificates"):
                open_generator(url)
            monkeypatch.setenv("SSL_CERT_FILE", files["ca"])
            certificates.cache_clear()
            drawn = [open_generator(one).draw("a", None, 1) for one in (url, f"images:fake@{url}")]
            assert drawn == [FakeGenerator(32).draw("a", None, 1)] * 2
        finally:
            certificates.cache_clear()
