"""The service in a separate process, started like the command, with the simulated GPU added.

python tests/support/serve_card.py '{"models": [{"name": "a", "generator": "card:96:0.25"}], "settings": {}}'
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def main() -> None:
    """Serve until SIGTERM; the first line on stdout is the address."""
    sys.path[0] = str(TESTS)
    import conftest  # noqa: F401 - makes the package importable
    from support.photograph_card import open_drawer
    from support.ray_here import importable
    from support.running_service import LOCAL, pool_of

    from interleave_thinker.service.settings import ModelSettings, ServiceSettings
    from interleave_thinker.service.web.app import create_app
    from interleave_thinker.service.web.server import Work, run_service

    given = json.loads(sys.argv[1])
    models = [ModelSettings(**one) for one in given["models"]]
    settings = ServiceSettings(**{"port": 0, "per_client": 100000, **given["settings"]})
    where = "ray" if any(len(one.devices) > 1 for one in models) else LOCAL
    with (
        tempfile.TemporaryDirectory() as place,
        importable(Path(place)),
        pool_of(models, settings, open_drawer, where) as pool,
    ):
        app = create_app(pool, settings)
        front = app.state.front
        work = Work(front.close, front.under_way, pool.close)
        run_service(app, settings, [settings.port], lambda urls: print(urls[0], flush=True), work)


if __name__ == "__main__":
    main()
