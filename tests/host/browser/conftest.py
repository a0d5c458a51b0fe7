"""Chromium, and a page of the front end for every test; without a browser they skip."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from ..server.comfy_server import ComfyServer
from .page import READY, setting

AT_START = ("Failed to load resource", "ComfyApp graph accessed before initialization")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip(
            "The browser tests need Chromium on the PATH, such as Debian's: apt-get install chromium."
        )
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, headless=True, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any, host: ComfyServer) -> Iterator[Any]:
    """The loaded front end.

    Requests to other servers are blocked and kept in `page.outside`, errors of the console in `page.faults`.
    """
    context = browser.new_context(viewport={"width": 1920, "height": 1080})
    page = context.new_page()
    page.set_default_timeout(90_000)
    page.outside, page.faults = [], []

    def only_the_server(route: Any) -> None:
        if route.request.url.startswith((host.url, "data:", "blob:")):
            route.continue_()
        else:
            page.outside.append(route.request.url)
            route.abort()

    page.route("**/*", only_the_server)
    page.on("dialog", lambda dialog: dialog.accept())

    def note(said: Any) -> None:
        # Requests of the front end that fail during its start do not concern the pack.
        start = said.text.startswith(AT_START) and "interleave" not in said.location.get("url", "")
        lost = said.type == "warning" and "ubgraph not found" in said.text
        if lost or (said.type == "error" and not start):
            page.faults.append(said.text)

    page.on("pageerror", lambda error: page.faults.append(f"{error}"))
    page.on("console", note)
    page.goto(host.url, wait_until="domcontentloaded")
    page.wait_for_function(READY, timeout=60_000)
    yield page
    context.close()


@pytest.fixture(params=["canvas", "vue"])
def canvas(request: pytest.FixtureRequest, page: Any, host: ComfyServer) -> Iterator[tuple[Any, str]]:
    """The page in one of the front end's two ways to show nodes, as wide as a laptop's."""
    page.set_viewport_size({"width": 1600, "height": 1000})
    if request.param == "vue":
        setting(host, "Comfy.VueNodes.Enabled", True)
        page.reload()
        page.wait_for_function(READY)
    yield page, request.param
    if request.param == "vue":
        setting(host, "Comfy.VueNodes.Enabled", False)
