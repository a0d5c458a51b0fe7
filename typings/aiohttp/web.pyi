from collections.abc import Callable, Iterator, Mapping
from typing import Any

class StreamReader:
    async def read(self, n: int = -1) -> bytes: ...
    def at_eof(self) -> bool: ...

class Request:
    method: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    content_type: str
    content: StreamReader

class Response:
    def __init__(
        self, *, body: bytes, content_type: str, headers: Mapping[str, str] | None = None
    ) -> None: ...

def json_response(data: Any = None, *, text: str | None = None, status: int = 200) -> Response: ...

class RouteDef:
    method: str
    path: str

class RouteTableDef:
    def __iter__(self) -> Iterator[object]: ...
    def route(self, method: str, path: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...

class HTTPUnsupportedMediaType(Exception):
    def __init__(self, *, text: str | None = None) -> None: ...

class HTTPRequestEntityTooLarge(Exception):
    def __init__(self, max_size: float, actual_size: float) -> None: ...
