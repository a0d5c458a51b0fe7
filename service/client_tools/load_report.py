"""What a load showed, as lines for a person and as one object for a program.

Decision: percentiles are of answers with an image, since a refusal is quick; refusals and faults are counted
beside them, each by its name. A percentile is a measured value (nearest rank), never one between two. How
late requests were begun stands beside the rest: where no client was free, or where this machine and not the
service was at its limit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from .load import Measured
from .questions import IMAGE

PERCENTILES = (50, 90, 95, 99)


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest of `values` that at least `share` per cent of them do not exceed; None if there are
    none."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(len(values) * share / 100) - 1)]


def summary(measured: Measured) -> dict[str, Any]:
    """The load as one object: seconds in s, latencies in ms, rates in 1/s."""
    settings, samples = measured.settings, measured.samples
    images = [sample for sample in samples if sample.outcome.kind == IMAGE]
    times = [sample.seconds * 1000 for sample in images]
    pauses = [sample.retry_after for sample in samples if sample.retry_after is not None]
    return {
        "clients": settings.clients,
        "rate": settings.rate,
        "seconds": round(measured.seconds, 3),
        "requests": len(samples),
        "images": len(images),
        "images_a_second": round(len(images) / measured.seconds, 3) if measured.seconds else None,
        "different_images": len({sample.outcome.digest for sample in images}),
        "answers": dict(Counter(sample.outcome.kind for sample in samples).most_common()),
        "with_retry_after": len(pauses),
        "never_begun": measured.unbegun,
        "milliseconds": {f"p{share}": _rounded(percentile(times, share)) for share in PERCENTILES}
        | {"max": _rounded(max(times, default=None))},
        "latest_begin_ms": _rounded(max(((one.begun - one.due) * 1000 for one in samples), default=None)),
    }


def lines(found: dict[str, Any]) -> list[str]:
    """The object of `summary` as lines."""
    times = found["milliseconds"]
    asked = f"{found['rate']:g} requests a second" if found["rate"] else f"{found['clients']} clients"
    begun = [f"{found['requests']} requests of {asked} in {found['seconds']:.1f} s"]
    if found["never_begun"]:
        begun.append(f"{found['never_begun']} more were due and never begun")
    shown = [
        "; ".join(begun),
        f"{found['images']} images, {found['images_a_second'] or 0:.2f} a second, "
        f"{found['different_images']} different",
        "answers: " + ", ".join(f"{kind} {count}" for kind, count in found["answers"].items()),
    ]
    if found["with_retry_after"]:
        shown.append(f"refusals that say when to ask again: {found['with_retry_after']}")
    if found["images"]:
        shown.append("milliseconds to an image: " + ", ".join(f"{k} {v:.1f}" for k, v in times.items()))
    if found["rate"] and (found["latest_begin_ms"] or 0) > 50:
        shown.append(
            f"begun up to {found['latest_begin_ms']:.0f} ms late (counted above): no client was free"
        )
    return shown


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
