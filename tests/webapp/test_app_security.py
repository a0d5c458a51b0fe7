"""Who may call the web app, what it takes, and what its answers allow a page to do."""

from __future__ import annotations

import base64
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'app' is not installed")

from starlette.testclient import TestClient
from support.cli_calls import call
from support.web_app import CHOSEN, Client, SmallModels, app_of, served

from interleave_thinker.cli.commands import app as command
from interleave_thinker.cli.models import CriticOptions, GeneratorOptions, LocalOptions, PlannerOptions
from interleave_thinker.webapp import routes, visitors
from interleave_thinker.webapp.models import Chosen
from interleave_thinker.webapp.requests import PublicSettings

ROOT = Path(__file__).resolve().parents[2]
OWN = "http://127.0.0.1:8020"
ROW = re.compile(r"^\| `(GET|POST) (/\S*)` \| ([^|]{10,}) \| [^|]+ \| [^|]+ \|$", re.MULTILINE)


@pytest.fixture
def http(tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(app_of(tmp_path), base_url=OWN) as opened:
        yield opened


def paths(http: TestClient) -> list[tuple[str, str]]:
    found = []
    for route in http.app.routes:
        for method in getattr(route, "methods", None) or ("GET",):
            if method in ("GET", "POST"):
                found.append((method, route.path))
    return found


def test_other_sites_and_other_names_are_refused_on_every_route(http: TestClient) -> None:
    assert len(paths(http)) > 15
    for method, path in paths(http):
        for headers in (
            {"Host": "evil.example"},
            {"Host": "127.0.0.1.evil.example"},
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://127.0.0.1:9"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Host": "[::1"},
        ):
            answer = http.request(method, path, headers=headers)
            assert answer.status_code == 403, (method, path, headers)


def test_its_own_page_and_programs_are_answered(http: TestClient) -> None:
    for headers in (
        {},
        {"Origin": OWN, "Sec-Fetch-Site": "same-origin"},
        {"Host": "localhost:8020"},
        {"Host": "[::1]:8020"},
        {"Sec-Fetch-Site": "none"},
    ):
        assert http.get("/interleave-thinker/page", headers=headers).status_code == 200, headers


def test_every_answer_limits_what_a_page_may_do(http: TestClient) -> None:
    for path in (
        "/",
        "/web/words.js",
        "/page/app.css",
        "/interleave-thinker/page",
        "/nowhere",
        "/web/none.js",
    ):
        headers = http.get(path).headers
        assert "default-src 'none'" in headers["Content-Security-Policy"], path
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff" and "Access-Control-Allow-Origin" not in headers
    refused = http.get("/", headers={"Host": "evil.example"})
    assert "default-src 'none'" in refused.headers["Content-Security-Policy"]


def test_runs_are_names_below_the_folder_of_runs(http: TestClient, tmp_path: Path) -> None:
    client = Client(http)
    run = client.start()
    client.ended()
    outside = tmp_path / "outside"
    (tmp_path / "runs" / run).rename(outside)
    (tmp_path / "runs" / "link").symlink_to(outside)
    for name in ("../outside", "..", ".", "", "link", str(outside), "a/b", "a\\b", "x" * 200, "\x00"):
        assert client.get("run", run=name).status_code in (400, 404), name
        assert client.get("export", run=name, to="page").status_code in (400, 404), name
        for route in ("again", "delete-story"):
            assert client.post(route, run=name).status_code == 400, name
        assert client.post("export", run=name, to="page").status_code == 400, name
    assert (outside / "run.json").is_file()
    for path in (
        "/page/../board.py",
        "/page/%2e%2e/board.py",
        "/web/..%2f..%2fpyproject.toml",
        "/web//etc/passwd",
    ):
        assert http.get(path).status_code == 404, path


def test_an_export_that_is_a_link_is_not_sent(http: TestClient, tmp_path: Path) -> None:
    client = Client(http)
    run = client.start()
    client.ended()
    secret = tmp_path / "secret"
    secret.write_text("secret")
    exports = tmp_path / "runs" / run / "exports"
    (exports / "pdf").mkdir(parents=True)
    (exports / "pdf" / "story.pdf").symlink_to(secret)
    assert client.get("export", run=run, to="pdf").status_code == 404
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "secret").write_text("secret")
    (exports / "page").symlink_to(tmp_path / "page")
    assert client.get("export", run=run, to="page").status_code == 404
    assert client.post("export", run=run, to="page").status_code == 400


def test_bodies_are_json_of_limited_size(http: TestClient) -> None:
    path = "/interleave-thinker/story"
    assert http.post(path, content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415
    assert http.post(path, data={"request": "A house."}).status_code == 415
    assert http.post(path, json={"request": "x" * routes.requests.MAX_UPLOAD}).status_code == 413
    cancel = http.post("/interleave-thinker/cancel", json={"run": "x" * routes.MAX_BODY})
    assert cancel.status_code == 413
    nested = b"[" * 100_000
    assert http.post(path, content=nested, headers={"Content-Type": "application/json"}).status_code == 400


def test_a_slow_body_has_a_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "BODY_SECONDS", 0.3)
    with served(tmp_path) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=10) as slow:
            slow.sendall(
                f"POST /interleave-thinker/cancel HTTP/1.1\r\nHost: {host}:{port}\r\n"
                "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{".encode()
            )
            assert b" 408 " in slow.recv(4096).splitlines()[0]


def test_other_machines_need_the_key(tmp_path: Path) -> None:
    def basic(password: str) -> dict[str, str]:
        return {"Authorization": "Basic " + base64.b64encode(f"me:{password}".encode()).decode()}

    app = app_of(tmp_path, listening="0.0.0.0", key="sesame öffne")
    with TestClient(app, base_url="http://my-desk.local:8020") as http:
        for path in ("/", "/page/app.js", "/interleave-thinker/page", "/nowhere"):
            asked = http.get(path)
            assert asked.status_code == 401 and asked.headers["WWW-Authenticate"].startswith("Basic ")
            for headers in (basic("wrong"), basic(""), {"Authorization": "Basic ?"}, {"Authorization": "x"}):
                assert http.get(path, headers=headers).status_code == 401
        for path in ("/", "/page/app.js", "/interleave-thinker/page"):
            answer = http.get(path, headers=basic("sesame öffne"))
            assert answer.status_code == 200 and "sesame" not in answer.text
        cross = {**basic("sesame öffne"), "Origin": "http://evil.example"}
        assert http.get("/", headers=cross).status_code == 403


def test_the_command_refuses_an_open_network_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(command.KEY, raising=False)
    monkeypatch.chdir(tmp_path)
    refused = call("app", "--host", "0.0.0.0")
    assert refused.exit_code == 2 and command.KEY in refused.output
    unknown = call("app", "--generator", "nosuch:model")
    assert unknown.exit_code == 2 and "nosuch" in unknown.output
    unused = call("app", "--set", "context=4096")
    assert unused.exit_code == 2 and "'context'" in unused.output
    monkeypatch.setattr(command.libraries, "missing", list)
    absent = call("app")
    assert absent.exit_code == 2 and ".[serve]" in absent.output


def test_models_are_shown_without_paths_addresses_and_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command.Opener, "check", lambda *models: None)
    offered = command.OfferedModels(
        PlannerOptions(planner="openai:org/qwen@http://me:secret@desk:8000/v1"),
        CriticOptions(critic="transformers:/home/me/models/my-critic/"),
        GeneratorOptions(generator="http:http://me:secret@desk:8011"),
        LocalOptions(),
    )
    labels = {role: found[0].label for role, found in offered.offered().items()}
    assert labels == {"planner": "qwen (openai)", "critic": "my-critic (transformers)", "generator": "http"}
    names = {role: found[0].name for role, found in offered.offered().items()}
    text = f"{offered.offered()}"
    assert not [word for word in ("secret", "desk", "/home", "http://") if word in text]
    offered.check(Chosen.model_validate(names), "anything at all")
    for role in names:
        with pytest.raises(command.SettingsError, match="not offered"):
            offered.check(Chosen.model_validate({**names, role: "transformers:/home/me/other"}), "a house")
    tiny = Chosen.model_validate({**names, "planner": "tinyworld"})
    with pytest.raises(command.Refused, match="does not know") as refused:
        offered.check(tiny, "a philosophical dragon")
    assert refused.value.unknown == ["philosophical", "dragon"]


def test_every_route_has_a_reason(http: TestClient) -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    _, _, part = text.partition("## Routes of the web app")
    assert part
    listed = {(method, path) for method, path, _ in ROW.findall(part.partition("\n## ")[0])}
    assert listed == set(paths(http))


PUBLIC = PublicSettings(public=True, steps=3, attempts=2, waiting=0, visitors=2, letters=60, stay=0.01)
THERE = {"base_url": "https://try.example"}


def visitor(app: Any, **given: Any) -> Client:
    """Return a visitor with the cookie that the page gave."""
    client = Client(TestClient(app, **THERE, **given))
    cookie = client.http.get("/").headers["Set-Cookie"]
    assert cookie.startswith("__Host-visitor=") and "Max-Age" not in cookie
    assert all(part in cookie for part in ("HttpOnly", "Secure", "SameSite=None; Partitioned", "Path=/"))
    assert "Set-Cookie" not in client.http.get("/").headers
    return client


def test_visitors_are_kept_apart_within_limits(tmp_path: Path) -> None:
    models = SmallModels(tmp_path / "drawn.log")
    public = PUBLIC.model_copy(update={"frame": "https://host.example"})
    app = app_of(tmp_path, models, listening="0.0.0.0", public=public)
    linked = TestClient(app, **THERE).get("/", headers={"Sec-Fetch-Site": "cross-site"})
    assert "frame-ancestors https://host.example" in linked.headers["Content-Security-Policy"]
    first, second = visitor(app), visitor(app)
    for given, said in (
        ({"step_count": 4}, "at most 3 steps"),
        ({"max_attempts": 3}, "at most 2 attempts"),
        ({"request": "x" * 61}, "at most 60 characters"),
        ({"models": {**CHOSEN, "size": "2048x64"}}, "at most 1024 pixels"),
    ):
        answer = first.post("story", **{"request": "A house.", "models": CHOSEN, "max_attempts": 2, **given})
        assert said in answer.json()["error"]
    settings = first.get("page").json()["settings"]
    assert settings["max_attempts"]["value"] == settings["max_attempts"]["most"] == 2
    run = first.start(max_attempts=2, pause="after the plan")
    first.ended()
    for get in ("run", "plan", "export"):
        assert second.get(get, run=run, **({"to": "pdf"} if get == "export" else {})).status_code == 404
    assert second.post("delete-story", run=run).status_code == 400
    assert second.get("stories").json()["stories"] == [] and len(first.get("stories").json()["stories"]) == 1
    long = "\n".join(f"{number}. x\n   draw: a" for number in range(1, 5))
    assert "at most 3 steps" in first.post("plan", run=run, text=long).json()["error"]
    sized = "1. x\n   draw: a\n   size: 4096x4096"
    assert "at most 1024" in first.post("plan", run=run, text=sized).json()["error"]
    models.seconds = 0.3
    second.start("Another house.", max_attempts=2)
    assert first.post("again", run=run).status_code == 503, "no story may wait"
    second.post("cancel", run=second.get("board").json()["run"])
    second.ended()
    nobody = Client(TestClient(app, **THERE))
    assert nobody.get("board").status_code == 403
    nobody.http.cookies.set("__Host-visitor", "../runs")
    assert nobody.get("board").status_code == 403
    cross = {"Sec-Fetch-Site": "cross-site"}
    assert first.http.get("/interleave-thinker/stories", headers=cross).status_code == 403
    visitor(app).get("board")  # the third visitor takes the place of one who is away
    assert len(list((tmp_path / "runs").iterdir())) <= 2


def test_nothing_of_a_visitor_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visitors, "SWEPT_EVERY", 0.01)
    # Longer than a request takes on a busy machine.
    monkeypatch.setattr(visitors, "AWAY", 3.0)
    models = SmallModels(tmp_path / "drawn.log", seconds=3.0)
    client = visitor(app_of(tmp_path, models, listening="0.0.0.0", public=PUBLIC))
    client.start(max_attempts=2)
    client.wait_for_an_image(models)
    # The story is stopped, since nobody asks for it, and its folder is deleted.
    until = time.monotonic() + 20
    while any((tmp_path / "runs").iterdir()):
        assert time.monotonic() < until
    assert len(models.drawn) < 4


def test_an_address_makes_a_limited_number_of_requests(tmp_path: Path) -> None:
    app = app_of(tmp_path, listening="0.0.0.0", public=PUBLIC)
    first, same, another, mapped, other = (
        visitor(app, client=(address, 1))
        for address in (
            "2001:db8::1",
            "2001:db8::2",
            "2001:db8:0:1::1",
            "::ffff:203.0.113.8",
            "::ffff:203.0.113.9",
        )
    )
    for client in (first, mapped):
        statuses = [client.post("again", run="none").status_code for _ in range(20)]
        assert statuses[0] == 400 and statuses[-1] == 429
    assert same.post("again", run="none").status_code == 429
    assert [one.post("again", run="none").status_code for one in (another, other)] == [400, 400]
