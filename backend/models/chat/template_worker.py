"""Renders chat templates for its parent process: one line of JSON in, one out. It is run by its path.

A template is a program from the author of the checkpoint. It can loop for days or produce gigabytes of text,
and neither a sandbox nor a thread can stop that. This process has limited memory, and the parent process ends
it when the time is up. If the parent was killed, a watchdog ends this process. It does not import the
package, since it runs isolated.
"""

from __future__ import annotations

import faulthandler
import json
import sys
from typing import Any

SPARE_BYTES = 512 * 1024 * 1024
"""Memory for a template, in addition to that of the libraries."""


def limit_memory() -> None:
    """Limit the memory of this process, if the system supports it."""
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + SPARE_BYTES, used + SPARE_BYTES))
    except (ImportError, OSError, ValueError):
        # Windows and macOS do not support it; the limits of time and text length remain.
        return


def answer(asked: dict[str, Any], render: Any) -> dict[str, str]:
    """Return the text of a conversation, or the reason why it cannot be rendered."""
    try:
        made = render(
            conversations=[asked["conversation"]],
            chat_template=asked["template"],
            add_generation_prompt=asked["asks"],
            **asked["tokens"],
        )
    except MemoryError:
        return {"problem": "it needs more memory than the limit"}
    except Exception as error:  # noqa: BLE001 - a template may raise anything
        return {"problem": f"{type(error).__name__}: {str(error)[:500]}"}
        # The library returns the texts together with tracking data.
    text = (made[0] if isinstance(made, tuple) else made)[0]
    if len(text) > asked["longest"]:
        return {"problem": f"its text has more than {asked['longest']:,} characters"}
    return {"text": text}


def main() -> None:
    """Answer until the pipe is closed. The first line contains the import path."""
    sys.path[:] = json.loads(sys.stdin.readline())
    from transformers.utils.chat_template_utils import render_jinja_template

    limit_memory()
    for line in sys.stdin:
        asked = json.loads(line)
        # A thread in C also works while a template holds the interpreter's lock.
        faulthandler.dump_traceback_later(asked["seconds"], exit=True)
        sys.stdout.write(json.dumps(answer(asked, render_jinja_template)) + "\n")
        sys.stdout.flush()
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main()
