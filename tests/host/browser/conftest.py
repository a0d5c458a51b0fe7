"""Chromium, and a page of the front end for every test; without a browser they skip."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from ..server.comfy_server import ComfyServer
from .page import front_end, setting

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
ONLY_THIS_MACHINE = "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"
"""Blocks other servers. A Playwright route would send every request through this process and disable the
browser's cache, which takes a quarter of the CPU time of loading a page."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip(
            "The browser tests need Chromium on the PATH, such as Debian's: apt-get install chromium."
        )
    with playwright.sync_playwright() as running:
        arguments = [*ARGUMENTS, ONLY_THIS_MACHINE]
        browser = running.chromium.launch(executable_path=path, headless=True, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def locale(host: ComfyServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """The front end's language, French unless it is a parameter.

    Tests name it before `page`, so that the page loads once, in this language.
    """
    setting(host, "Comfy.Locale", language := getattr(request, "param", "fr"))
    yield language
    setting(host, "Comfy.Locale", "en")


def name_of(request: pytest.FixtureRequest) -> str:
    return re.sub(r"\W+", "-", request.node.name).strip("-")


@pytest.fixture
def page(browser: Any, host: ComfyServer, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The loaded front end."""
    with front_end(browser, host, name_of(request)) as page:
        yield page


@pytest.fixture
def french(locale: str, page: Any) -> Any:
    """The front end in French."""
    return page


@pytest.fixture(scope="module")
def same_page(browser: Any, host: ComfyServer) -> Iterator[Any]:
    """The front end, loaded once for the tests of a file, each of which opens a graph of its own."""
    with front_end(browser, host) as page:
        yield page


@pytest.fixture(params=["canvas", "vue"])
def canvas(request: pytest.FixtureRequest, browser: Any, host: ComfyServer) -> Iterator[tuple[Any, str]]:
    """The page in one of the front end's two ways to show nodes, as wide as a laptop's."""
    setting(host, "Comfy.VueNodes.Enabled", request.param == "vue")
    with front_end(browser, host, name_of(request)) as page:
        page.set_viewport_size({"width": 1600, "height": 1000})
        yield page, request.param
    setting(host, "Comfy.VueNodes.Enabled", False)
