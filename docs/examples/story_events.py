"""A web app of your own that streams a story to the browser: `uvicorn story_events:app`.

The route `/story?request=...` sends server-sent events: `plan`, `attempt` and `step` for each image, and
`done` or `failed`.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from contextlib import closing
from queue import Empty, SimpleQueue

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from PIL.Image import Image

from interleave_thinker import AttemptJudged, InterleaveError, Pipeline, PlanReady, StepFinished

# A pipeline runs one story at a time: here two visitors have a story each.
# The tiny world. With your models: Pipeline("openai:MODEL@URL", "http:IMAGE-SERVICE", "openai:MODEL@URL")
pipelines: SimpleQueue[Pipeline] = SimpleQueue()
for _ in range(2):
    pipelines.put(Pipeline())
app = FastAPI()


def message(event: str, **data: object) -> str:
    """Return one server-sent event."""
    return f"event: {event}\ndata: {json.dumps(data)}\n\n"


def base64_png(image: Image) -> str:
    """Return an image as text."""
    png = io.BytesIO()
    image.save(png, "PNG")
    return base64.b64encode(png.getvalue()).decode()


def events(request: str) -> Iterator[str]:
    """Yield the events of a story. If the visitor leaves, the story stops."""
    try:
        pipeline = pipelines.get_nowait()
    except Empty:
        yield message("failed", text="Two stories are being generated. Try again later.")
        return
    try:
        with closing(pipeline.stream(request)) as stream:
            for event in stream:
                match event:
                    case PlanReady():
                        yield message("plan", steps=[step.name for step in event.plan.steps])
                    case AttemptJudged(step=step, record=attempt) if attempt.verdict:
                        yield message("attempt", step=step.number, accepted=attempt.verdict.success)
                    case StepFinished(result=result) if result.image:
                        png = base64_png(result.image.image)
                        yield message("step", step=result.step.number, png=png)
            yield message("done", accepted=stream.result().accepted)
    except InterleaveError as error:
        yield message("failed", text=str(error))
    finally:
        pipelines.put(pipeline)


@app.get("/story")
def story(request: str) -> StreamingResponse:
    """Stream a story."""
    return StreamingResponse(events(request), media_type="text/event-stream")
