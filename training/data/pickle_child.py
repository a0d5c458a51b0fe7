"""Child process that reads a pickle: run as a script by `pickled.py`, with the file as its input.

It imports nothing of this package and lowers its own rights before it reads the first byte. Every global name
in a pickle is refused, so that no allowlist of names can be wrong.
"""

from __future__ import annotations

import json
import pickle
import sys
import zipfile
from typing import IO, Any, BinaryIO, NoReturn

TORCH = 0x1950A86A20F9469CFC6C
"""First value of a file in torch's old format, before it used archives; the content is the fourth value."""
MAX_VALUES = 20_000
MAX_DEPTH = 16


class UnsafePickle(Exception):
    """The pickle contains more than plain values."""


class PlainUnpickler(pickle.Unpickler):
    """Unpickles only lists, dictionaries, texts and numbers."""

    def find_class(self, module_name: str, global_name: str) -> NoReturn:
        """Refuse every global name."""
        raise UnsafePickle(f"it uses {module_name[:60]}.{global_name[:60]}, but only plain values are read")

    def persistent_load(self, pid: Any) -> NoReturn:
        """Refuse every external reference."""
        raise UnsafePickle("it refers to external data, such as a tensor")


def give_up_rights(memory: int, seconds: int) -> None:
    """Limit this process's memory, CPU time and file sizes, on systems that support it."""
    try:
        import resource
    except ImportError:
        return
    limits = {resource.RLIMIT_CPU: seconds, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0}
    if sys.platform != "darwin":  # where a process maps more than that at startup
        limits[resource.RLIMIT_AS] = memory
    for name, most in limits.items():
        _, given = resource.getrlimit(name)
        # The system's own limit may be lower, and raising it is an error.
        most = most if given == resource.RLIM_INFINITY else min(most, given)
        resource.setrlimit(name, (most, most))


def content_of(file: BinaryIO) -> Any:
    """Return the value of a plain pickle, or of a file of torch in the old or new format."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            names = [name for name in archive.namelist() if name.rpartition("/")[2] == "data.pkl"]
            if len(names) != 1:
                raise UnsafePickle("it is an archive, but not one of torch")
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
    """Return the value if JSON can represent it; a part that is referenced several times counts each time.

    Raises:
        UnsafePickle: It has other types, too many values or too many levels.
    """
    room[0] -= 1
    if room[0] < 0 or depth > MAX_DEPTH:
        raise UnsafePickle("an item has too many values or levels")
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(one, room, depth + 1) for one in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain(one, room, depth + 1) for key, one in value.items()}
    raise UnsafePickle(f"an item contains a {type(value).__name__}")


def say(out: IO[str], content: dict[str, Any]) -> None:
    """Write one line of JSON."""
    out.write(json.dumps(content, allow_nan=False) + "\n")


def main() -> None:
    """Read the pickle from standard input and write its items."""
    give_up_rights(int(sys.argv[1]), int(sys.argv[2]))
    out = sys.stdout
    try:
        items = content_of(sys.stdin.buffer)
        if isinstance(items, dict):
            items = list(items.values())
        if not isinstance(items, (list, tuple)):
            raise UnsafePickle("it is not a list")
        for item in items:
            try:
                say(out, {"item": plain(item, [MAX_VALUES])})
            except (UnsafePickle, ValueError):
                say(out, {"item": None})
        say(out, {"end": True})
    except MemoryError:
        say(out, {"error": "it needs more memory than a file of its size should"})
    except BrokenPipeError:
        return
    except (UnsafePickle, RecursionError) as error:
        say(out, {"error": str(error)})
    except Exception as error:  # noqa: BLE001 - a damaged pickle can raise anything
        say(out, {"error": f"damaged: {type(error).__name__}"})
    out.flush()


if __name__ == "__main__":
    main()
