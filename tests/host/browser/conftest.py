"""Chromium, and a page of the front end for every test; without a browser they skip."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from ..server.comfy_server import ComfyServer
from .page import READY

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
    """The front end, ready; requests that leave the server are refused and remembered in `page.outside`."""
    context = browser.new_context(viewport={"width": 1920, "height": 1080})
    page = context.new_page()
    page.set_default_timeout(90_000)
    page.outside = []

    def only_the_server(route: Any) -> None:
        if route.request.url.startswith((host.url, "data:", "blob:")):
            route.continue_()
        else:
            page.outside.append(route.request.url)
            route.abort()

    page.route("**/*", only_the_server)
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto(host.url, wait_until="domcontentloaded")
    page.wait_for_function(READY, timeout=60_000)
    yield page
    context.close()
