"""The page at `/` in a real browser, and its routes without one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("fastapi", reason="the extra 'serve' is not installed")

from support.served_app import served_app
from support.small_pool import SmallPool

from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.service.pool import Busy, WorkerState
from interleave_thinker.service.settings import ServiceSettings

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
EVIL = '<img src=x onerror="document.title=1"><script>document.title=1</script>'
SHOTS = os.environ.get("INTERLEAVE_TEST_SHOTS")


@pytest.fixture
def pool() -> SmallPool:
    return SmallPool()


def draw(url: str, **body: Any) -> httpx.Response:
    asked = {"prompt": "a boat", "seed": 3} | body
    return httpx.post(f"{url}/edit", json=asked, trust_env=False)


def test_browsers_get_the_page_and_programs_the_published_json(pool: SmallPool) -> None:
    with served_app(pool) as url, httpx.Client(base_url=url, trust_env=False) as client:
        assert client.get("/").json()["status"] == "running"
        page = client.get("/", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
        assert page.headers["Content-Type"].startswith("text/html")
        policy = page.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert not [line for line in page.text.splitlines() if "http" in line and "://" in line]


def test_the_last_images_can_be_had_and_no_others(pool: SmallPool) -> None:
    with served_app(pool) as url, httpx.Client(base_url=url, trust_env=False) as client:
        for seed in (1, 2, 2):
            assert draw(url, seed=seed).json()["success"]
        recent = client.get("/recent").json()
        assert [one["seed"] for one in recent] == [2, 1]
        assert Picture.from_bytes(client.get(f"/recent/{recent[0]['id']}").content).size == (64, 64)
        assert client.get("/recent/0123").status_code == 404


def test_no_cache_gives_a_new_image(pool: SmallPool) -> None:
    with served_app(pool) as url:
        for headers in ({}, {}, {"Cache-Control": "no-cache"}):
            asked = {"prompt": "a boat", "seed": 3}
            assert httpx.post(f"{url}/edit", json=asked, headers=headers, trust_env=False).status_code == 200
        assert len(pool.requests) == 2


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("Chromium is not on the PATH: apt-get install chromium")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=path, headless=True, args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    """Return a page that records requests to other hosts and errors."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    page.set_default_timeout(20_000)
    page.outside, page.faults = [], []
    page.on("request", lambda asked: page.outside.append(asked.url) if _is_outside(asked.url) else None)
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.on("console", lambda said: page.faults.append(said.text) if said.type == "error" else None)
    yield page
    context.close()


def _is_outside(url: str) -> bool:
    return not url.startswith(("http://127.0.0.1:", "blob:", "data:"))


def shot(page: Any, name: str) -> None:
    if SHOTS:
        page.screenshot(path=str(Path(SHOTS) / f"{name}.png"), full_page=True)


def test_the_form_generates_and_edits(tab: Any, pool: SmallPool) -> None:
    with served_app(pool) as url:
        tab.goto(url)
        tab.locator("#state.good").wait_for()
        tab.fill("[name=prompt]", "a red boat")
        tab.fill("[name=seed]", "7")
        tab.press("[name=prompt]", "Control+Enter")
        tab.locator("#result img").wait_for()
        assert tab.locator("#models").is_hidden(), "only one model exists"
        assert tab.locator("[data-takes=guidance]").is_hidden(), "the painter has no guidance"
        assert "a red boat (seed 7, 64×64" in tab.inner_text("#result figcaption")
        tab.locator("#recent figure").wait_for()
        tab.click("#result button")
        tab.locator("#source img").wait_for()
        tab.fill("[name=prompt]", "make it blue")
        tab.click("#draw button.main")
        tab.locator("#recent figure").nth(1).wait_for()
        first, second = pool.requests
        assert (first.prompt, first.seed, first.sources) == ("a red boat", 7, ())
        assert len(second.sources) == 1
        shot(tab, "light")
        tab.emulate_media(color_scheme="dark")
        shot(tab, "dark")
        tab.set_viewport_size({"width": 390, "height": 800})
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        shot(tab, "narrow")
        assert not tab.faults
        assert not tab.outside


def test_model_names_and_errors_are_shown_as_text(tab: Any, pool: SmallPool) -> None:
    pool.fails = [Busy(f"full {EVIL}", retry_after=3.0)]
    pool.states = [
        WorkerState("painter-0", "painter", "cpu", "dead", reason=EVIL, restarts=2, seconds_to_restart=4.2)
    ]
    with served_app(pool) as url:
        tab.goto(url)
        tab.locator("#workers li").wait_for()
        assert EVIL in tab.inner_text("#workers")
        assert tab.inner_text("#state") == "no worker running"
        tab.fill("[name=prompt]", EVIL)
        tab.click("#draw button.main")
        tab.locator("#drawing.bad").wait_for()
        assert EVIL in tab.inner_text("#drawing")
        assert "Try again in 3 s." in tab.inner_text("#drawing")
        assert tab.title() != "1"
        shot(tab, "faults")


def test_the_page_asks_for_the_key_if_one_is_set(
    tab: Any, pool: SmallPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLEAVE_SERVICE_KEY", "sesame")
    with served_app(pool, ServiceSettings(host="127.0.0.1")) as url:
        tab.goto(url)
        tab.locator("#key").wait_for()
        shot(tab, "key")
        assert tab.locator("#recent figure").count() == 0
        tab.fill("#key input", "wrong")
        tab.press("#key input", "Enter")
        tab.locator("#refused:not(:empty)").wait_for()
        tab.fill("#key input", "sesame")
        tab.press("#key input", "Enter")
        tab.locator("#numbers div").first.wait_for()
        assert tab.locator("#key").is_hidden()
        tab.fill("[name=prompt]", "a boat")
        tab.click("#draw button.main")
        tab.locator("#result img").wait_for()
        assert "sesame" not in tab.content()
        assert "sesame" not in tab.url
