from typing import Any

from aiohttp import web

class PromptServer:
    instance: PromptServer
    client_id: str | None
    routes: web.RouteTableDef
    def send_sync(self, event: str, data: Any, sid: str | None = None) -> None: ...
    def send_progress_text(self, text: str, node_id: str, sid: str | None = None) -> None: ...
