"""EditScore and UnifiedReward-Edit: chat models that were trained to score edits, with scores from 0 to 25.

The procedure is that of EditScore (arXiv 2509.23909): two questions as in VIEScore, the lower of the two
numbers of each, divided by 2.5. UnifiedReward-Edit answers the same form. Where the published code guesses a
score for a reply that cannot be read, this is an error here.
"""

from __future__ import annotations

from ..answers.reply_text import find_objects, split_reply
from ..chat import open_chat
from ..errors import AnswerError
from .judge import ChatJudge
from .judge_prompts import JudgePrompts
from .reward_prompts import TOP, import_editscore, scores_to_25


class RewardJudge(ChatJudge):
    """A judge whose answers are JSON with two scores from 0 to 25."""

    def read(self, text: str) -> tuple[float, float]:
        """Return the two numbers of a reply, 0..10 each.

        Raises:
            AnswerError: The reply does not contain two scores.
        """
        first, second = read_reward(text)
        return first / TOP * 10, second / TOP * 10


def read_reward(text: str) -> tuple[float, float]:
    """Return the numbers of the only `"score": [first, second]` in a reply, 0..25 each.

    A list alone is accepted too. Numbers inside the reasoning are not read.

    Raises:
        AnswerError: The reply contains no scores, several different ones, or a score out of range.
    """
    places = split_reply(text).places
    found = {
        _pair(one.value["score"], text)
        for place in places
        for one in find_objects(place)
        if "score" in one.value
    }
    if not found:
        found = {_pair(place.content.strip(), text) for place in places if place.content.strip()}
    if len(found) != 1:
        raise AnswerError(f"The reply contains {len(found)} different pairs of scores.", text or "(empty)")
    return found.pop()


def _pair(value: object, text: str) -> tuple[float, float]:
    numbers = value
    if isinstance(value, str) and value.startswith("[") and value.endswith("]"):
        numbers = value[1:-1].split(",")[:3]
    try:
        pair = [float(str(number)) for number in numbers] if isinstance(numbers, list) else []
    except ValueError:
        pair = []
    if len(pair) != 2:
        raise AnswerError("The reply does not contain two scores.", text or "(empty)")
    if not all(0 <= number <= TOP for number in pair):
        raise AnswerError(f"A score is not from 0 to {TOP:g}.", f"{pair[0]:g}, {pair[1]:g}")
    return pair[0], pair[1]


def _open(
    argument: str,
    prompts: JudgePrompts,
    adapter: str | None,
    dtype: str | None,
    device: str | None,
    quantization: str | None,
    download: bool | None,
) -> RewardJudge:
    chat = open_chat(
        argument,
        adapter=adapter,
        dtype=dtype,
        device=device,
        quantization=quantization,
        download=download or None,
    )
    return RewardJudge(chat, prompts=prompts)


def open_editscore(
    argument: str,
    *,
    prompts: str | None = None,
    adapter: str | None = None,
    dtype: str | None = None,
    device: str | None = None,
    quantization: str | None = None,
    download: bool | None = None,
) -> RewardJudge:
    """Open EditScore.

    Args:
        argument: Chat backend with the base model, such as `transformers:FOLDER`, or a server.
        prompts: Checkout of EditScore's repository, whose prompts are used. Default: this package's own.
        adapter: Option of the backend: folder of EditScore's LoRA adapter.
        dtype: Option of the backend.
        device: Option of the backend.
        quantization: Option of the backend.
        download: Option of the backend: whether a hub id may be downloaded.

    Raises:
        SettingsError: The backend is unknown, an option is not supported, or the checkout has no prompts.
        ChatError: The model cannot be loaded.
    """
    name = "editscore"
    texts = import_editscore(prompts, name) if prompts else scores_to_25(name)
    return _open(argument, texts, adapter, dtype, device, quantization, download)


def open_unifiedreward(
    argument: str,
    *,
    dtype: str | None = None,
    device: str | None = None,
    quantization: str | None = None,
    download: bool | None = None,
) -> RewardJudge:
    """Open UnifiedReward-Edit.

    Args:
        argument: Chat backend, such as `openai:MODEL@URL` for a vLLM server.
        dtype: Option of the backend.
        device: Option of the backend.
        quantization: Option of the backend.
        download: Option of the backend: whether a hub id may be downloaded.

    Raises:
        SettingsError: The backend is unknown, or an option is not supported.
        ChatError: The model cannot be loaded.
    """
    prompts = scores_to_25("unifiedreward")
    return _open(argument, prompts, None, dtype, device, quantization, download)
