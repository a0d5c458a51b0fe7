"""The tiny world's planner and critic: shipped Qwen3-VL checkpoints, opened like any local checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..backend.core.errors import SettingsError
from ..backend.core.machine.environment import one_thread
from ..backend.core.seams.chat_model import Message, Reply, ReplySettings
from ..backend.core.types import Plan
from ..backend.models.chat.local import chat as transformers
from ..backend.models.chat.local.base_model import EngineSettings
from ..backend.models.chat.local.chat import TransformersChat
from . import checkpoint, vocabulary

ROLES = ("planner", "critic")


class TinyWorldChat(TransformersChat):
    """A local checkpoint that runs on one thread. It reads single small images and no sheet of several."""

    @property
    def writes_texts(self) -> bool:
        """`False`: it learned plans or verdicts alone."""
        return False

    def check_request(self, text: str) -> None:
        """Check that the planner knows all words of a request.

        Raises:
            SettingsError: If it does not.
        """
        vocabulary.check_request(text)

    def plan_warning(self, text: str, plan: Plan) -> str:
        """Return what the plan leaves out of the request, and whether it has invented steps."""
        return vocabulary.plan_warning(text, plan)

    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> Reply:
        """Answer the messages on one thread."""
        with one_thread():
            return super().reply(messages, settings, on_token)

    def reply_together(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> list[Reply]:
        """Answer the messages in one batch, on one thread."""
        with one_thread():
            return super().reply_together(messages, settings, on_token)


def check(argument: str, *, adapter: str | None = None) -> None:
    """Check the name and the folders, before torch is imported. Errors are those of `open`."""
    if argument not in ROLES:
        raise SettingsError(
            f"The tiny world has no agent named {argument!r}.",
            f"Use tinyworld:{' or tinyworld:'.join(ROLES)}.",
        )
    transformers.check(str(checkpoint(argument)), adapter=adapter)


def open(
    argument: str,
    *,
    adapter: str | None = None,
    dtype: str = "float32",
    engine: EngineSettings = EngineSettings(),  # noqa: B008 - frozen
) -> TinyWorldChat:
    """Open `tinyworld:planner` or `tinyworld:critic`, optionally with a LoRA adapter.

    The agents always run on the CPU, where they are fastest, in float32 unless `dtype` is set. Questions are
    read whole, so that rounding stays the same; explicit `engine` settings override this.

    Raises:
        SettingsError: If the name is unknown or the checkpoint is missing.
    """
    check(argument)
    exact = EngineSettings(prefix_tokens=0)
    own = exact.model_copy(update=engine.model_dump(exclude_unset=True))
    chat = transformers.open(
        str(checkpoint(argument)), adapter=adapter, dtype=dtype, device="cpu", engine=own
    )
    return TinyWorldChat(chat.base, chat.adapter, chat.trained)
