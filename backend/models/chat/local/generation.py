"""Decodes replies, one or several as a batch, and keeps the last question.

The library computes logits and keeps the cache. Which token follows is decided here: a `Sampler` for each
reply reads P(success) from the raw logits, applies sampling settings and grammar, and chooses with its own
random numbers, so that a seed gives the same reply alone and in a batch. Its listener gets the token, and
does streaming, cancelling and the stop at a final verdict.

A reply to a kept question is followed token by token (`follow`), with drafts copied from the prompt and from
earlier replies: a critic repeats the prompt that it refines, and its own phrases. All other replies use
`generate`, whose own prompt lookup cannot be used, because it calls the samplers for tokens that it rejects.

Only the part of a question that differs from the last one is read. Every question of a critic begins with
the same instructions, and the attempts of a step share the image before it and the goal. One question is kept
for each model, on the model's device, and it is freed when the weights leave. Three versions of transformers
computed wrong positions when a prompt continued a cached beginning, without an error: answers only became
slightly worse. So positions are requested from the model for the whole question, and at the first use the
logits are compared with those of the whole question read at once. If they differ, nothing is kept.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from ....core.machine.counters import count
from ....core.seams.chat_model import OnToken, Reply, ReplySettings
from ..verdict_watch import AnswerWatch, probability_of_true, watch_of

if TYPE_CHECKING:
    from torch import Generator


LOG = logging.getLogger(__name__)
TOLERANCE_32_BITS = 1e-3
TOLERANCE_16_BITS = 0.04
"""Maximum distance of logits that counts as rounding; an answer moved by one position gives 0.092 or more."""
CACHE_ARGUMENTS = ("cache", "past_key_values")
"""Name of the cache argument: since transformers 5.24, and before."""
_exact: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
"""Whether a model gives the same logits with a kept beginning."""
# A character takes at most 4 bytes, so at most 4 byte-level tokens.
MAX_PENDING = 4
STATIC_AFTER = 1000
"""Tokens that a model writes on a GPU before its decoding is compiled."""
STATIC_STEP = 2048
"""Sizes of static caches are multiples of it, in tokens."""
TRIED = 8
"""Tokens that are decoded with and without a static cache."""
MOST_DRAFTED = 16
"""Maximum number of drafted tokens in a pass."""
MOST_WRITTEN = 2000
"""Tokens of earlier replies that are kept."""
Processor = Callable[[Any, Any], Any]
"""Gets the ids so far `(1, length)` and scores `(1, vocabulary)` of the next token, and returns scores."""


class ReplyListener:
    """Assembles a reply token by token."""

    def __init__(
        self,
        tokenizer: Any,
        end_tokens: Collection[int],
        watched_tokens: tuple[Sequence[int], Sequence[int]],
        settings: ReplySettings,
        thinking: bool,
        on_token: OnToken | None,
        held: bool = False,
    ) -> None:
        """Start a reply.

        `watched_tokens` are those of the two words whose probability is measured. `held`: the reply is
        constrained to the grammar of verdicts, so that it may stop at true.
        """
        self.logits: Any = None
        """Raw logits `(1, vocabulary)` of the next token."""
        self._tokenizer = tokenizer
        self._end_tokens = end_tokens
        self._thinking = thinking
        self._on_token = on_token
        self._watch: AnswerWatch | None = watch_of(settings, held, thinking)
        self._true_tokens, self._false_tokens = (list(tokens) for tokens in watched_tokens)
        self._pieces: list[str] = []
        self.tokens: list[int] = []
        """Tokens of the reply, its end included."""
        self._before: list[int] = []
        self._pending: list[int] = []
        self._finish: Literal["end", "length", "verdict"] = "length"

    def take(self, token: int) -> bool:
        """Add the next token, and return whether the reply is complete."""
        self.tokens.append(token)
        if token in self._end_tokens:
            self._finish = "end"
            self._flush()
            return True
        self._pending.append(token)
        piece = self._text_of_pending()
        if piece.endswith("\ufffd") and len(self._pending) < MAX_PENDING:
            return False
        self._done()
        return self._add(piece, token)

    def reply(self) -> Reply:
        """Return the reply so far."""
        self._flush()
        return Reply(
            text="".join(self._pieces),
            tokens=len(self.tokens),
            probability=self._watch.probability() if self._watch else None,
            finish=self._finish,
            thinking=self._thinking,
        )

    def _add(self, piece: str, token: int | None = None) -> bool:
        """Add a piece of text, and return whether it settles the answer that is watched."""
        watch = self._watch
        if (
            watch is not None
            and watch.add(piece)
            and (token in self._true_tokens or token in self._false_tokens)
        ):
            logits = self.logits[0].float()
            watch.measured(
                probability_of_true(logits[self._true_tokens].tolist(), logits[self._false_tokens].tolist())
            )
        is_settled = watch is not None and watch.settled
        if watch is not None and is_settled:
            self._finish = "verdict"
            piece = piece[: len(piece) - watch.stop()]
        self._pieces.append(piece)
        if self._on_token is not None:
            self._on_token(piece)
        return is_settled

    def _flush(self) -> None:
        if self._pending:
            piece = self._text_of_pending()
            self._done()
            self._add(piece)

    def _done(self) -> None:
        self._before = self._pending[-1:]
        self._pending = []

    def _text_of_pending(self) -> str:
        # Some tokenizers drop the space before the first token of a text, so the token before is decoded too.
        before = self._text_of(self._before)
        whole = self._text_of([*self._before, *self._pending])
        return whole[len(before) :] if whole.startswith(before) else self._text_of(self._pending)

    def _text_of(self, tokens: Sequence[int]) -> str:
        # Tags are special tokens in some vocabularies and are part of the answer.
        return self._tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False)


@dataclass
class Sampler:
    """Chooses the tokens of one reply."""

    listener: ReplyListener
    processors: Sequence[Processor]
    settings: ReplySettings
    _generator: Generator | None = field(default=None, init=False)

    def choose(self, ids: Any, logits: Any) -> int:
        """Return the next token after ids `(1, length)`, from logits `(1, vocabulary)`."""
        import torch

        self.listener.logits = logits
        warm = self.settings.temperature > 0
        scores = logits / self.settings.temperature if warm else logits
        for process in self.processors:
            scores = process(ids, scores)
        if not warm:
            return int(scores.argmax(dim=-1))
        if self._generator is None:
            self._generator = torch.Generator(scores.device).manual_seed(self.settings.seed)
        return int(torch.multinomial(scores.softmax(dim=-1), num_samples=1, generator=self._generator))


def sampling_processors(settings: ReplySettings) -> list[Processor]:
    """Return the processors that apply `top_k` and then `top_p`; none at temperature 0."""
    if settings.temperature == 0:
        return []
    from transformers import TopKLogitsWarper, TopPLogitsWarper

    processors: list[Processor] = []
    if settings.top_k > 0:
        processors.append(TopKLogitsWarper(settings.top_k))
    if settings.top_p < 1.0:
        processors.append(TopPLogitsWarper(settings.top_p))
    return processors


def decode(
    model: Any,
    inputs: dict[str, Any],
    samplers: Sequence[Sampler],
    room: int,
    ends: Sequence[int],
    static: bool = False,
) -> list[Reply]:
    """Decode replies to prompts of one length, each to its own end.

    Args:
        model: The library's model.
        inputs: Tensors of the prompts, with `input_ids` `(replies, length)`.
        samplers: One for each reply.
        room: Token limit of a reply.
        ends: Tokens that end a reply.
        static: Use a cache of a fixed size, with which the library compiles the decoding on a GPU.
    """
    import torch
    from transformers import LogitsProcessorList, StoppingCriteriaList

    tokens, going = [ends[0]] * len(samplers), set(range(len(samplers)))
    end = inputs["input_ids"].shape[1] + room

    def choose(ids: Any, logits: Any) -> Any:
        count(lm_forwards=1)
        chosen = torch.full_like(logits, float("-inf"))
        for row, sampler in enumerate(samplers):
            if row in going:
                tokens[row] = sampler.choose(ids[row : row + 1], logits[row : row + 1])
            chosen[row, tokens[row]] = 0.0
        return chosen

    def listen(ids: Any, scores: Any, **options: Any) -> Any:
        going.difference_update([row for row in sorted(going) if samplers[row].listener.take(tokens[row])])
        ended = [row not in going or ids.shape[1] >= end for row in range(len(samplers))]
        return torch.tensor(ended, device=ids.device)

    model.generate(
        **inputs,
        generation_config=_generation_config(inputs, room, ends, static),
        logits_processor=LogitsProcessorList(cast(Any, [choose])),
        stopping_criteria=StoppingCriteriaList(cast(Any, [listen])),
    )
    return [sampler.listener.reply() for sampler in samplers]


def _generation_config(inputs: dict[str, Any], room: int, ends: Sequence[int], static: bool) -> Any:
    from transformers import GenerationConfig

    if static:
        # The size of the cache is compiled too, so that few sizes are compiled again.
        room += -(inputs["input_ids"].shape[1] + room) % STATIC_STEP
    return GenerationConfig(
        max_new_tokens=room,
        do_sample=False,
        eos_token_id=list(ends),
        pad_token_id=ends[0],
        use_cache=True,
        cache_implementation="static" if static else None,
    )


_compiled = threading.local()
"""`exact`: whether compiled decoding is exact, by model. CUDA graphs belong to the thread that made them."""
_written: weakref.WeakKeyDictionary[Any, list[int]] = weakref.WeakKeyDictionary()
"""The last tokens that a model has written since its weights are on their device."""


def keep_written(model: Any, samplers: Sequence[Sampler]) -> None:
    """Keep the tokens of replies. Later replies are drafted from them, and compiled after enough of them."""
    new = [token for sampler in samplers for token in sampler.listener.tokens]
    _written[model] = [*_written.get(model, ()), *new][-MOST_WRITTEN:]


def uses_static_cache(
    model: Any, inputs: dict[str, Any], wanted: bool | None, room: int, ends: Sequence[int]
) -> bool:
    """Return whether to decode with a static cache, with which the library compiles the decoding on a GPU.

    Compiling takes up to a minute, so it begins when a model has written enough without leaving the GPU. Some
    tokens are then decoded both ways. If their logits differ by more than rounding, or if compiling fails, a
    warning reports it, and this thread does not compile.

    Args:
        model: The library's model.
        inputs: Tensors of the prompt.
        wanted: Whether to use it from the first reply on; `None`: as above.
        room: Token limit of the reply.
        ends: Tokens that end a reply.
    """
    is_due = len(_written.get(model, ())) >= STATIC_AFTER and getattr(model, "hf_quantizer", None) is None
    if not _compiles(inputs["input_ids"]) or not (is_due if wanted is None else wanted):
        return False
    exact = vars(_compiled).setdefault("exact", weakref.WeakKeyDictionary())
    if model not in exact:
        _questions.pop(model, None)
        fault = _static_fault(model, inputs, room, ends)
        exact[model] = not fault
        if fault:
            LOG.warning("Decoding is not compiled: %s", fault)
    return exact[model]


def _compiles(ids: Any) -> bool:
    return ids.is_cuda


def _static_fault(model: Any, inputs: dict[str, Any], room: int, ends: Sequence[int]) -> str:
    """Return why decoding with a static cache is not possible or not exact; empty if it is."""
    import torch

    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path.home() / ".cache" / "interleave-thinker"))
    end = inputs["input_ids"].shape[1] + TRIED
    logits: list[Any] = []
    tokens: list[list[int]] = []
    try:
        for static in (False, True):
            config = _generation_config(inputs, room, ends, static)
            config.update(return_dict_in_generate=True, output_logits=True)
            stop = [lambda ids, scores, **options: torch.tensor([ids.shape[1] >= end], device=ids.device)]
            output = model.generate(**inputs, generation_config=config, stopping_criteria=stop)
            logits.append(output.logits)
            tokens.append(output.sequences[0, -len(output.logits) :].tolist())
    except (RuntimeError, AssertionError) as error:
        return str(error).partition("\n")[0]
    compared = zip(logits[0][: common_length(*tokens) + 1], logits[1], strict=False)
    is_full = str(model.dtype) == "torch.float32"
    if all(is_rounding(*pair, is_full) for pair in compared):
        return ""
    return "transformers returns other logits with a static cache."


class KeptQuestion(NamedTuple):
    """A question that was read: its adapter, its tokens, and the library's cache that begins with them.

    A token of an image is the digest of that image.
    """

    adapter: str | None
    tokens: list[int | str]
    cache: Any


_questions: weakref.WeakKeyDictionary[Any, KeptQuestion] = weakref.WeakKeyDictionary()


def forget_prefix(model: Any) -> None:
    """Free the cache of a model whose weights leave the device."""
    _questions.pop(model, None)
    _written.pop(model, None)


def read_question(
    model: Any, adapter: str | None, inputs: dict[str, Any], digests: Sequence[str]
) -> tuple[Any, Any] | None:
    """Read a question of a Qwen3-VL from where it differs from the last one.

    Args:
        model: The library's model.
        adapter: Name of the selected adapter.
        inputs: Tensors of the question, with `input_ids` `(1, length)`.
        digests: Digests of its images.

    Returns:
        A cache of the whole question, and the logits `(1, 1, vocabulary)` after it. `None` if the library
        computes other logits with a kept beginning.
    """
    from transformers import DynamicCache

    kept = _questions.pop(model, None)
    if not _exact.get(model, True):
        return None
    ids = inputs["input_ids"]
    tokens = tokens_of(ids[0].tolist(), model.config.image_token_id, digests)
    common = common_length(kept.tokens, tokens) if kept is not None and kept.adapter == adapter else 0
    cache = kept.cache if kept is not None and common else DynamicCache(config=model.config)
    _crop(cache, common)
    count(cached_tokens=common)
    logits = _read(model, inputs, cache, common)
    if common and model not in _exact:
        whole = _read(model, inputs, DynamicCache(config=model.config), 0)
        _exact[model] = is_rounding(logits, whole, str(model.dtype) == "torch.float32")
        if not _exact[model]:
            LOG.warning("Prefix caching is off: transformers returns other logits with a cached prefix.")
            return None
    _questions[model] = KeptQuestion(adapter, tokens, cache)
    return cache, logits[None]


def draft_of(tokens: Sequence[int], most: int) -> Sequence[int]:
    """Return the tokens that may come next: those after the longest earlier occurrence of the last tokens.

    Of equally long occurrences the latest counts. Twice as many tokens are drafted as are equal, since a
    longer repetition is more likely to continue.
    """
    longest = after = 0
    earlier = [at for at, token in enumerate(tokens[:-1]) if token == tokens[-1]]
    for end in reversed(earlier):
        equal = 1
        while equal < most and equal <= end and tokens[end - equal] == tokens[-1 - equal]:
            equal += 1
        if equal > longest:
            longest, after = equal, end + 1
        if longest >= most:
            break
    return tokens[after : after + min(2 * longest, most)]


def follow(model: Any, question: Any, cache: Any, logits: Any, sampler: Sampler, room: int) -> Reply:
    """Decode the reply to a question that was read, in passes of one token and a draft.

    Only drafted tokens that the sampler chooses too are used, so a draft changes nothing but rounding.

    Args:
        model: The library's model.
        question: Token ids `(1, length)`.
        cache: The library's cache of the question. It contains only the question again afterwards.
        logits: Logits `(1, 1, vocabulary)` after the question.
        sampler: Chooses the tokens.
        room: Token limit of the reply.
    """
    import torch

    length, delta, written = question.shape[1], model.model.rope_deltas, _written.get(model, ())
    ids = torch.cat([question, question.new_zeros(1, room)], dim=-1)
    tokens: list[int] = question[0].tolist()
    draft: Sequence[int] = ()
    while True:
        count(lm_forwards=1)
        for at in range(len(draft) + 1):
            token = sampler.choose(ids[:, : len(tokens)], logits[:, at])
            ids[0, len(tokens)] = token
            tokens.append(token)
            if sampler.listener.take(token) or len(tokens) == length + room:
                _crop(cache, length)
                return sampler.listener.reply()
            if at < len(draft) and token != draft[at]:
                break
        read = len(tokens) - 1
        _crop(cache, read)
        most = min(MOST_DRAFTED, length + room - len(tokens) - 1)
        draft = draft_of([*written, *tokens], most) if model in _exact else ()
        step = torch.tensor([[tokens[-1], *draft]], device=ids.device)
        positions = torch.arange(read, read + step.shape[1], device=ids.device) + delta
        logits = model(
            input_ids=step,
            position_ids=positions.expand(3, 1, -1),
            use_cache=True,
            **{cache_argument(model): cache},
        ).logits


def tokens_of(ids: Sequence[int], image_token: int, digests: Sequence[str]) -> list[int | str]:
    """Return token ids with the digest of an image in place of its tokens, which follow each other."""
    found: list[int | str] = []
    left, before = iter(digests), -1
    digest = ""
    for token in ids:
        if token == image_token:
            digest = digest if before == image_token else next(left)
        found.append(digest if token == image_token else token)
        before = token
    return found


def common_length(first: Sequence[int | str], second: Sequence[int | str]) -> int:
    """Return how many tokens two questions share at their beginning, without the last token of the second."""
    most = min(len(first), len(second) - 1)
    return next((at for at in range(most) if first[at] != second[at]), most)


def is_rounding(logits: Any, others: Any, full: bool) -> bool:
    """Return whether logits `(1, vocabulary)` differ only by rounding, in 32 bits if `full`."""
    ours, theirs = (one.float() - one.float().mean() for one in (logits, others))
    apart = float((ours - theirs).norm() / theirs.norm().clamp_min(1e-9))
    return apart <= (TOLERANCE_32_BITS if full else TOLERANCE_16_BITS)


def cache_argument(model: Any) -> str:
    """Return the name of the cache argument of a model."""
    accepted = _parameters(type(model).forward)
    return next((name for name in CACHE_ARGUMENTS if name in accepted), CACHE_ARGUMENTS[-1])


@cache
def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(signature(function).parameters)


def _crop(cache: Any, length: int) -> None:
    # A negative number is how many tokens are removed, in all versions of the library.
    if surplus := cache.get_seq_length() - length:
        cache.crop(-surplus)


def _read(model: Any, inputs: dict[str, Any], cache: Any, start: int) -> Any:
    """Read the tokens of a question from `start` on into the cache, and return the last logits."""
    ids, image = inputs["input_ids"], model.config.image_token_id
    accepted = _parameters(type(model.model).get_rope_index)
    given = {name: tensor for name, tensor in inputs.items() if name in accepted}
    positions, model.model.rope_deltas = model.model.get_rope_index(**given)
    rest = {"input_ids": ids[:, start:], "position_ids": positions[..., start:]}
    if "mm_token_type_ids" in inputs:
        rest["mm_token_type_ids"] = inputs["mm_token_type_ids"][:, start:]
    if "image_grid_thw" in inputs:
        is_image = (ids[0] == image).tolist()
        read = sum(is_image[at] and not (at and is_image[at - 1]) for at in range(start))
        grids = inputs["image_grid_thw"]
        if read < len(grids):
            patches = int(grids[:read].prod(dim=-1).sum())
            rest |= {"pixel_values": inputs["pixel_values"][patches:], "image_grid_thw": grids[read:]}
    deltas = model.model.rope_deltas
    output = model(**rest, **{cache_argument(model): cache}, use_cache=True, logits_to_keep=1)
    model.model.rope_deltas = deltas
    return output.logits[:, -1]
