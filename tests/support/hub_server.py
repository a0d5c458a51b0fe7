"""A small model hub for tests: the two kinds of answers that a hub client needs, with faults on demand."""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager
from pathlib import Path

from .fake_server import FakeHandler, FakeServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class _Handler(FakeHandler):
    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == f"/api/models/{self.server.hub_id}":
            return self.send(200, self.server.listing(), {"content-type": "application/json"})
        prefix = f"/{self.server.hub_id}/resolve/{COMMIT}/"
        name = path.removeprefix(prefix)
        if not path.startswith(prefix) or name not in self.server.files:
            return self.send(404, {"error": "Repository not found"})
        self.server.asked.append((name, self.headers.get("range")))
        content = self.server.files[name]
        if self.server.damaged and name.endswith(".safetensors"):
            content = content[:-1] + bytes([content[-1] ^ 1])
        start = int((self.headers.get("range") or "bytes=0-").removeprefix("bytes=").partition("-")[0])
        if self.server.cut is not None and name.endswith(".safetensors"):
            self.send_response(206 if start else 200)
            self.send_header("content-length", str(len(content) - start))
            self.end_headers()
            self.wfile.write(content[start : start + self.server.cut])
            self.server.cut = None
            self.close_connection = True
            return
        self.send(206 if start else 200, content[start:])


class HubServer(FakeServer):
    """Serves the files of `folder` as the model `hub_id`.

    `cut` ends each weight file once after that many bytes.
    """

    handler = _Handler

    def __init__(self, hub_id: str, folder: Path) -> None:
        super().__init__()
        self.hub_id = hub_id
        self.files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        self.cut: int | None = None
        self.damaged = False
        self.asked: list[tuple[str, str | None]] = []

    def listing(self) -> dict[str, object]:
        siblings = []
        for name, content in self.files.items():
            row: dict[str, object] = {"rfilename": name, "size": len(content)}
            if name.endswith(".safetensors"):
                digest = hashlib.sha256(content).hexdigest()
                row["lfs"] = {"size": len(content), "sha256": digest, "pointerSize": 130}
            siblings.append(row)
        return {"id": self.hub_id, "sha": COMMIT, "private": False, "disabled": False, "gated": False,
                 "downloads": 0, "likes": 0, "tags": [], "siblings": siblings}  # fmt: skip


def hub_server(hub_id: str, folder: Path) -> AbstractContextManager[HubServer]:
    """Run the server in a thread until the block ends."""
    return HubServer(hub_id, folder).running()
