"""The child process that opens a pickle: run as a script by `pickled.py`, with the file as its input.

Decision: it imports nothing of this package and nothing that is not needed, lowers its own rights before it
reads the first byte, and never raises them again. Every name that a pickle asks for is refused, whatever it
is, so that no list of good names can be wrong.
"""

from __future__ import annotations

import json
import pickle
import sys
import zipfile
from typing import IO, Any, BinaryIO, NoReturn

TORCH = 0x1950A86A20F9469CFC6C
"""First value of a file that torch wrote before it wrote archives; the content is the fourth."""
MAX_VALUES = 20_000
MAX_DEPTH = 16


class UnsafePickle(Exception):
    """The pickle is more than a list of plain values."""


class PlainUnpickler(pickle.Unpickler):
    """Makes lists, dictionaries, texts and numbers."""

    def find_class(self, module_name: str, global_name: str) -> NoReturn:
        raise UnsafePickle(f"it names {module_name[:60]}.{global_name[:60]}, and only plain values are read")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise UnsafePickle("it refers to something outside itself, such as a tensor")


def give_up_rights(memory: int, seconds: int) -> None:
    """No more memory, time, files or bytes on a disk than this; where the system has such limits."""
    try:
        import resource
    except ImportError:
        return
    limits = {resource.RLIMIT_CPU: seconds, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0}
    if sys.platform != "darwin":  # a process maps more than that there before its first line
        limits[resource.RLIMIT_AS] = memory
    for name, most in limits.items():
        _, given = resource.getrlimit(name)
        # What the machine allows may be less already, and asking for more is an error.
        most = most if given == resource.RLIM_INFINITY else min(most, given)
        resource.setrlimit(name, (most, most))


def content_of(file: BinaryIO) -> Any:
    """The value in a plain pickle, or in a file of torch's, old or new."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            names = [name for name in archive.namelist() if name.rpartition("/")[2] == "data.pkl"]
            if len(names) != 1:
                raise UnsafePickle("it is an archive, and none of torch's")
            with archive.open(names[0]) as inner:
                return PlainUnpickler(inner).load()
    file.seek(0)
    value = PlainUnpickler(file).load()
    if value != TORCH:
        return value
    for _ in range(2):
        PlainUnpickler(file).load()
    return PlainUnpickler(file).load()


def plain(value: Any, room: list[int], depth: int = 0) -> Any:
    """The value, if JSON can say it; parts that stand in several places count each time. Raises
    UnsafePickle."""
    room[0] -= 1
    if room[0] < 0 or depth > MAX_DEPTH:
        raise UnsafePickle("an item has too many values, or too deep ones")
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(one, room, depth + 1) for one in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain(one, room, depth + 1) for key, one in value.items()}
    raise UnsafePickle(f"an item holds a {type(value).__name__}")


def say(out: IO[str], content: dict[str, Any]) -> None:
    """Write one line."""
    out.write(json.dumps(content, allow_nan=False) + "\n")


def main() -> None:
    """Read the pickle of the standard input, write its items."""
    give_up_rights(int(sys.argv[1]), int(sys.argv[2]))
    out = sys.stdout
    try:
        items = content_of(sys.stdin.buffer)
        if isinstance(items, dict):
            items = list(items.values())
        if not isinstance(items, (list, tuple)):
            raise UnsafePickle("it is no list")
        for item in items:
            try:
                say(out, {"item": plain(item, [MAX_VALUES])})
            except (UnsafePickle, ValueError):
                say(out, {"item": None})
        say(out, {"end": True})
    except MemoryError:
        say(out, {"error": "it takes more memory than its size allows"})
    except BrokenPipeError:
        return
    except (UnsafePickle, RecursionError) as error:
        say(out, {"error": str(error)})
    except Exception as error:  # noqa: BLE001 - whatever a damaged pickle makes of its reader is one line
        say(out, {"error": f"damaged: {type(error).__name__}"})
    out.flush()


if __name__ == "__main__":
    main()
