"""`serve check`: tests a running service."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from ...backend.errors import SettingsError
from ..progress import Lines

WORD = {True: ("ok", "green"), False: ("failed", "red"), None: ("none", "")}


def command(
    url: Annotated[str, typer.Argument(help="Address of the service, such as http://127.0.0.1:8011.")],
    prompt: Annotated[str, typer.Option(help="Prompt of the test images.")] = "a red boat on a calm sea",
    size: Annotated[str, typer.Option(help="Size of the test images as WIDTHxHEIGHT.")] = "512x512",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the test images.")] = 7,
    model: Annotated[
        str | None, typer.Option(help="Model of the service to test. Default: the service's default.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, max=3600, help="Timeout per image in seconds.")] = 300.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Test a running service.

    The tests are its health, an image from text, an edit, and whether a repeated request gives the same
    image. The exit code is 1 if a test fails. The service's key is read from INTERLEAVE_GENERATOR_KEY.
    """
    from ...backend.remote.addresses import DEFAULT_PORT, service_url
    from ...backend.remote.api_keys import GENERATOR_KEY, read_key
    from ...service.client_tools.check import CheckSettings, ServiceCheck
    from ...service.client_tools.requests import pixels

    try:
        settings = CheckSettings(prompt, pixels(size), seed, model, timeout)
    except ValueError as error:
        raise SettingsError(f"--size: {error}.") from error
    view = Lines()
    found = []
    address = service_url(url, DEFAULT_PORT)
    for finding in ServiceCheck(address, read_key(GENERATOR_KEY), settings).findings():
        found.append(finding)
        if not as_json:
            word, style = WORD[finding.right]
            view.say(f"{finding.name:<7}{word:<7}{finding.seconds:8.2f} s  {finding.said}", style)
    right = all(finding.right is not False for finding in found)
    if as_json:
        print(json.dumps({"url": url, "right": right, "findings": [asdict(one) for one in found]}))
    raise typer.Exit(int(not right))
