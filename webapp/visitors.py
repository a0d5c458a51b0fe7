"""Visitors of a public try-out: each has a board of their own, which no other visitor sees; it is not kept.

A visitor is known by a cookie with a random name that the server chose. Behind a proxy the address of a
visitor is that of `X-Forwarded-For`, if uvicorn trusts the proxy (`FORWARDED_ALLOW_IPS`).
"""

from __future__ import annotations

import hashlib
import re
import secrets
import shutil
import threading
import time
from ipaddress import IPv6Address, ip_network
from pathlib import Path

from fastapi import Request, Response

from ..backend.core.types import RunSettings
from ..backend.story.agents.plan_constraints import PlanConstraints
from .board import Board, Turns
from .models import Models
from .requests import PublicSettings, Refused

NAME = re.compile(r"[A-Za-z0-9_-]{43}")
SWEPT_EVERY = 5.0
AWAY = 60.0
"""Seconds after a visitor's last request, with which the page waits for news, until the story is stopped."""
MOST_TOKENS, TOKENS_PER_SECOND, MAX_ADDRESSES = 300.0, 5.0, 10_000
VISITORS_PER_ADDRESS = 5
COSTS = {"story": 20.0, "again": 20.0, "export": 20.0, "plan": 5.0}
"""Tokens of a POST, by the name of the route. Other requests cost one."""


class Visitors:
    """The boards of all visitors, by cookie, in a folder that the caller deletes at the end."""

    def __init__(
        self,
        folder: Path,
        models: Models,
        settings: RunSettings,
        constraints: PlanConstraints,
        public: PublicSettings,
    ) -> None:
        self.public = public
        self._folder, self._given = folder, (models, settings, constraints, public)
        self._turns = Turns(public.waiting)
        self._boards: dict[str, Board] = {}
        self._tokens: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        threading.Thread(target=self._sweep, daemon=True).start()

    @property
    def busy(self) -> int:
        """Number of stories that are being generated or wait."""
        return sum(board.busy for board in list(self._boards.values()))

    def board(self, request: Request) -> Board:
        """Return the board of the visitor who makes a request.

        Raises:
            Refused: The visitor has no cookie, makes too many requests, or there are too many visitors.
        """
        address = _address(request.client.host if request.client else "")
        route = request.url.path.rpartition("/")[2]
        name = request.cookies.get(_cookie(request), "")
        with self._lock:
            self._pay(address, COSTS.get(route, 1.0) if request.method == "POST" else 1.0)
            if not NAME.fullmatch(name):
                raise Refused(403, "The page needs a cookie.", "Reload it, or open it in a tab of its own.")
            if name not in self._boards:
                self._make_room(address)
                digest = hashlib.blake2b(name.encode(), digest_size=16).hexdigest()
                models, settings, constraints, public = self._given
                visit = self._turns, address
                self._boards[name] = Board(
                    self._folder / digest, models, settings, constraints, public, visit
                )
            board = self._boards[name]
            board.seen = time.monotonic()
            return board

    def welcome(self, request: Request, response: Response) -> None:
        """Give a new visitor a cookie. In a frame of another site it is kept apart from that of a tab."""
        if NAME.fullmatch(request.cookies.get(_cookie(request), "")):
            return
        over = "Secure; SameSite=None; Partitioned" if request.url.scheme == "https" else "SameSite=Lax"
        cookie = f"{_cookie(request)}={secrets.token_urlsafe(32)}; Path=/; HttpOnly; {over}"
        response.headers.append("Set-Cookie", cookie)

    def close(self) -> None:
        """Stop all stories."""
        self._closing.set()
        for board in list(self._boards.values()):
            board.close()

    def _pay(self, address: str, cost: float) -> None:
        """Take tokens from those of an address, which come back with time."""
        now = time.monotonic()
        left, before = self._tokens.get(address, (MOST_TOKENS, now))
        left = min(MOST_TOKENS, left + TOKENS_PER_SECOND * (now - before))
        if left < cost or (address not in self._tokens and len(self._tokens) >= MAX_ADDRESSES):
            raise Refused(429, "There are too many requests from your address.", "Wait a minute.")
        self._tokens[address] = left - cost, now

    def _make_room(self, address: str) -> None:
        """Forget the visitor who was away longest: of this address if it has many, or of all."""
        own = [name for name, board in self._boards.items() if board.address == address]
        if len(own) < VISITORS_PER_ADDRESS and len(self._boards) < self.public.visitors:
            return
        names = own if len(own) >= VISITORS_PER_ADDRESS else list(self._boards)
        idle = [name for name in names if not self._boards[name].busy]
        if not idle:
            raise Refused(503, "There are too many visitors.", "Try again in a few minutes.")
        self._forget(min(idle, key=lambda name: self._boards[name].seen))

    def _forget(self, name: str) -> None:
        board = self._boards.pop(name)
        board.close()
        shutil.rmtree(board.runs, ignore_errors=True)

    def _sweep(self) -> None:
        """Stop the stories of visitors who left, and delete what is not kept."""
        while not self._closing.wait(SWEPT_EVERY):
            now = time.monotonic()
            with self._lock:
                full = now - MOST_TOKENS / TOKENS_PER_SECOND
                self._tokens = {one: state for one, state in self._tokens.items() if state[1] > full}
                for name, board in list(self._boards.items()):
                    if board.busy and now - board.seen > AWAY:
                        board.interrupt()
                    elif not board.busy and now - board.seen > self.public.stay:
                        self._forget(name)


def _address(client: str) -> str:
    """Return an address, of version 6 without the half that its owner chooses."""
    if ":" not in client:
        return client
    address = IPv6Address(client.partition("%")[0])
    return str(address.ipv4_mapped or ip_network((address, 64), strict=False))


def _cookie(request: Request) -> str:
    """Return the name of the cookie. Over HTTPS no other host of the domain can set it."""
    return "__Host-visitor" if request.url.scheme == "https" else "visitor"
