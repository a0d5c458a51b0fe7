"""Renders chat templates for the process that started it, one line of JSON in, one out; run by path, alone.

Reason: a template is a program of whoever made the checkpoint. It can loop for days or make a text of
gigabytes, and neither a sandbox nor a thread can stop that. Here it has this process's memory alone, and the
other process ends this one when time is up. If the other process was killed, a watchdog ends this one. It
imports nothing of the package, since it runs isolated.
"""

from __future__ import annotations

import faulthandler
import json
import sys
from typing import Any

SPARE_BYTES = 512 * 1024 * 1024
"""Memory for a template, beyond what the libraries take."""


def limit_memory() -> None:
    """Bound this process's memory, where the system can."""
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + SPARE_BYTES, used + SPARE_BYTES))
    except (ImportError, OSError, ValueError):
        # Neither Windows nor macOS has it: the limits of time and of the text's length remain.
        return


def answer(asked: dict[str, Any], render: Any) -> dict[str, str]:
    """The text of a conversation, or why there is none."""
    try:
        made = render(
            conversations=[asked["conversation"]],
            chat_template=asked["template"],
            add_generation_prompt=asked["asks"],
            **asked["tokens"],
        )
    except MemoryError:
        return {"problem": "it needs more memory than a template may have"}
    except Exception as error:  # noqa: BLE001 - a template may raise anything
        return {"problem": f"{type(error).__name__}: {str(error)[:500]}"}
    # The library returns the texts with what it tracked of them.
    text = (made[0] if isinstance(made, tuple) else made)[0]
    if len(text) > asked["longest"]:
        return {"problem": f"it makes a text of more than {asked['longest']:,} characters"}
    return {"text": text}


def main() -> None:
    """Answer until the pipe is closed. The first line holds where libraries are."""
    sys.path[:] = json.loads(sys.stdin.readline())
    from transformers.utils.chat_template_utils import render_jinja_template

    limit_memory()
    for line in sys.stdin:
        asked = json.loads(line)
        # A thread in C: it works while a template holds the interpreter's lock.
        faulthandler.dump_traceback_later(asked["seconds"], exit=True)
        sys.stdout.write(json.dumps(answer(asked, render_jinja_template)) + "\n")
        sys.stdout.flush()
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main()
