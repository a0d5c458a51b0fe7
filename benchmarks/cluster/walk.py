"""Runs the commands of the walk-through, each in its own process, and prints when they begin and end."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ..chain import HERE

ROOT = Path(__file__).resolve().parents[2]
GIVEN_UP = 3
"""Exit code of `data trajectories` if some step was never accepted, which is normal."""
READY_SECONDS = 240.0
LOOKED_EVERY = 0.2


def own_port() -> int:
    """Return a free port outside the range from which the system gives ports to Ray."""
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("0.0.0.0", port))
            return port


def this_command() -> list[str]:
    """Return the program `interleave-thinker` of this checkout."""
    return [sys.executable, "-c", HERE, str(ROOT / "tests")]


class Walk:
    """Runs commands in the folder `out`, with their output in `out/NAME.log`.

    Attributes:
        seconds: Duration of the stages by name.
        processes: The commands that run now.
    """

    def __init__(self, out: Path) -> None:
        self.out, self._began = out, time.monotonic()
        self.seconds: dict[str, float] = {}
        self.processes: list[subprocess.Popen[bytes]] = []

    def inside(self, name: str) -> Walk:
        """Return a walk in a new folder of this one, with the same clock."""
        (self.out / name).mkdir()
        other = Walk(self.out / name)
        other._began = self._began
        return other

    def say(self, line: str) -> None:
        """Print a line after the seconds since the start."""
        print(f"{time.monotonic() - self._began:7.1f} s  {line}", flush=True)

    def run(
        self,
        name: str,
        command: str,
        meanwhile: Callable[[], None] = lambda: None,
        allowed: Sequence[int] = (0,),
    ) -> str:
        """Run `interleave-thinker` with the words of `command`.

        Args:
            name: Name of the stage.
            command: Words after the program's name.
            meanwhile: Called repeatedly until the command ends.
            allowed: Exit codes that are not failures.

        Returns:
            Output of the command.
        """
        self.say(f"$ interleave-thinker {command}")
        return self._carried_out(name, [[*this_command(), *command.split()]], meanwhile, allowed)

    def launched(
        self,
        name: str,
        launch: str,
        command: str,
        meanwhile: Callable[[], None] = lambda: None,
        allowed: Sequence[int] = (0,),
    ) -> str:
        """Run a training with `accelerate launch` on two machines of one CPU process each.

        Both are on this machine. The other arguments and the result are as in `run`, for the first one.
        """
        program = [str(Path(__file__).with_name("on_cpu.py")), *command.split()]
        machines = []
        for rank in (0, 1):
            words = f"{launch} --machine_rank {rank}"
            self.say(f"$ accelerate launch {words} interleave-thinker {command} &")
            machines.append([sys.executable, "-m", "accelerate.commands.launch", *words.split(), *program])
        return self._carried_out(name, machines, meanwhile, allowed)

    @contextmanager
    def served(self, command: str) -> Iterator[None]:
        """Run `interleave-thinker serve` until the end of the block."""
        self.say(f"$ interleave-thinker {command} &")
        log = self.out / "serve.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*this_command(), *command.split()], cwd=self.out, stdout=output, stderr=output
            )
        try:
            until = time.monotonic() + READY_SECONDS
            while b"Listening" not in log.read_bytes():
                if process.poll() is not None or time.monotonic() > until:
                    sys.exit(f"the service did not start:\n{log.read_text()[-4000:]}")
                time.sleep(LOOKED_EVERY)
            self.say("  serve: listening")
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            self.say(f"  serve: exit code {process.wait(120)} after SIGTERM")

    def _carried_out(
        self,
        name: str,
        commands: Sequence[Sequence[str]],
        meanwhile: Callable[[], None],
        allowed: Sequence[int],
    ) -> str:
        began = time.monotonic()
        logs = [self.out / f"{name}{number or ''}.log" for number in range(len(commands))]
        environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
        self.processes = processes = []
        for command, log in zip(commands, logs, strict=True):
            with log.open("wb") as output:
                processes.append(
                    subprocess.Popen(command, cwd=self.out, env=environment, stdout=output, stderr=output)
                )
        while any(process.poll() is None for process in processes):
            if any(process.returncode not in (None, *allowed) for process in processes):
                for process in processes:  # the other machine would wait for minutes
                    process.kill()
            meanwhile()
            time.sleep(LOOKED_EVERY)
        self.seconds[name] = round(time.monotonic() - began, 1)
        for process, log in zip(processes, logs, strict=True):
            if process.returncode not in allowed:
                said = log.read_text(encoding="utf-8", errors="replace")
                sys.exit(f"{name} ended with exit code {process.returncode}:\n{said[-4000:]}")
        codes = ", ".join(str(process.returncode) for process in processes)
        self.say(f"  {name}: exit code {codes} after {self.seconds[name]} s")
        return logs[0].read_text(encoding="utf-8", errors="replace")
