"""Run by the host's own Python: its memory manager, real agents, and a simulated GPU (`booked_card`).

Prints a JSON object with one entry per scenario.
"""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import host_modules  # the host and the pack; first

# isort: split

import comfy.model_management as mm
import comfy.ops
import torch
from booked_card import CPU, GPU, KILO, fresh, gpu, on_gpu
from comfy.model_patcher import ModelPatcher

from interleave_thinker.backend.core.errors import ChatError
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.models.chat import Message, Reply, ReplySettings, open_chat
from interleave_thinker.backend.models.chat.local.generation import _questions
from interleave_thinker.backend.models.vram.placement import agent_work
from interleave_thinker.backend.models.vram.shapes import agent_shape
from interleave_thinker.nodes.agents.managed_chat import ManagedChat, offload_others
from interleave_thinker.nodes.host import memory as ours

SHORT = ReplySettings(max_tokens=3)
ASK = [Message(role="user", content=("A boat?",))]
TINY = Path(host_modules.ROOT) / "tinyworld" / "checkpoints"


def agent(role: str, on: bool = True) -> tuple[ManagedChat, Any]:
    """Return a managed agent and its torch module, which raises unless it is fully on the GPU."""
    chat = open_chat(f"transformers:{TINY / role}", device="cpu", share=on)
    module = chat.model
    module.register_forward_pre_hook(lambda *_: check_whole(module))
    return ManagedChat(chat), module


def check_whole(module: torch.nn.Module) -> None:
    if on_gpu(module) != 1:
        raise RuntimeError(f"computes with {on_gpu(module):.0%} of its weights on the GPU")


def diffusion(kilobytes: int) -> ModelPatcher:
    """A model whose layers the host can cast on demand, as its diffusion models are."""
    layers = [comfy.ops.manual_cast.Linear(128, 128, bias=False) for _ in range(kilobytes // 64)]
    return ModelPatcher(torch.nn.Sequential(*layers), load_device=GPU, offload_device=CPU)


def agents_loaded() -> int:
    return sum(isinstance(one.model.model, ours.AgentModel) for one in mm.current_loaded_models)


def alternate(state: Any) -> dict[str, Any]:
    """Planner, critic and image model take turns on a GPU with room for about one of them."""
    planner, planner_module = agent("planner")
    critic, critic_module = agent("critic")
    largest = max(ours.bytes_of(planner_module), ours.bytes_of(critic_module))
    image_model = diffusion(int(largest * 0.8) // KILO)
    shares, most = [], 0
    # The manager reserves a tenth more than the weights, so "room for one" means that much.
    with fresh(int(largest * 1.25) + 512 * KILO, state):
        for _ in range(3):
            for speaker in (planner, None, critic, None):
                if speaker is None:
                    mm.load_models_gpu([image_model], memory_required=64 * KILO)
                else:
                    speaker.reply(ASK, SHORT)
                shares += [on_gpu(planner_module), on_gpu(critic_module)]
                most = max(most, gpu.used())
        arrivals = gpu.arrivals
        within = most <= gpu.size
    return {"half": [s for s in shares if 0 < s < 1], "arrivals": arrivals, "within": within}


def planner_first() -> dict[str, Any]:
    """A planner replies once; then critic and image model share a GPU with room for these two only."""
    planner, planner_module = agent("planner")
    critic, critic_module = agent("critic")
    image_model = diffusion(ours.bytes_of(critic_module) // KILO)
    with fresh(int(ours.bytes_of(critic_module) * 2.3) + 512 * KILO):
        planner.reply(ASK, SHORT)
        at_first = on_gpu(planner_module)
        offload_others(critic)
        for _ in range(3):
            mm.load_models_gpu([image_model], memory_required=64 * KILO)
            critic.reply(ASK, SHORT)
        return {"planner": [at_first, on_gpu(planner_module)], "critic": on_gpu(critic_module),
                "image_model": on_gpu(image_model.model), "arrivals": gpu.arrivals}  # fmt: skip


def stays() -> dict[str, Any]:
    """Repeated calls, with an image model that also fits."""
    chat, module = agent("critic")
    image_model = diffusion(256)
    with fresh(64 * KILO * KILO):
        for _ in range(4):
            chat.reply(ASK, SHORT)
            mm.load_models_gpu([image_model], memory_required=64 * KILO)
        return {"arrivals": gpu.arrivals, "on_gpu": on_gpu(module)}


def shared() -> dict[str, Any]:
    """Two agents on one base are one model, which stays loaded if one of them stays."""
    first, module = agent("critic")
    second, again = agent("critic")
    with fresh(64 * KILO * KILO):
        first.reply(ASK, SHORT)
        offload_others(second)
        second.reply(ASK, SHORT)
        return {"same": module is again, "managed": agents_loaded(), "arrivals": gpu.arrivals}


def unloaded() -> dict[str, Any]:
    """The unload button frees all memory; the next call loads the agent again; deleting it leaves nothing."""
    chat, module = agent("critic")
    with fresh(64 * KILO * KILO):
        chat.reply(ASK, SHORT)
        before = gpu.used()
        mm.unload_all_models()
        after = gpu.used()
        chat.reply(ASK, SHORT)
        arrivals = gpu.arrivals
        gone = weakref.ref(module)
        module._forward_pre_hooks.clear()
        del chat, module
        gc.collect()
        mm.cleanup_models_gc()
        return {"before": before, "after": after, "arrivals": arrivals, "freed": gone() is None,
                "left": agents_loaded()}  # fmt: skip


def too_big() -> dict[str, Any]:
    """An agent larger than the GPU raises at once, and the image model stays loaded."""
    chat, module = agent("critic")
    image_model = diffusion(256)
    with fresh(ours.bytes_of(module) // 2):
        mm.load_models_gpu([image_model], memory_required=0)
        return {"said": said(lambda: chat.reply(ASK, SHORT)), "image_model": on_gpu(image_model.model),
                "agent": on_gpu(module)}  # fmt: skip


def runs_out_while_loading() -> dict[str, Any]:
    """The GPU has less memory than reported, so the loaded part is offloaded again."""
    chat, module = agent("critic")
    with fresh(64 * KILO * KILO):
        gpu.real_size = ours.bytes_of(module) // 2
        text = said(lambda: chat.reply(ASK, SHORT))
        on = on_gpu(module)
        gpu.real_size = None
        return {"said": text, "agent": on, "then": bool(chat.reply(ASK, SHORT).tokens)}


def runs_out_while_writing() -> dict[str, Any]:
    chat, module = agent("critic")
    with fresh(64 * KILO * KILO):

        def fail(*_: Any) -> None:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB.")

        hook = module.lm_head.register_forward_pre_hook(fail)
        text = said(lambda: chat.reply(ASK, SHORT))
        hook.remove()
        return {"said": text, "agent": on_gpu(module), "then": bool(chat.reply(ASK, SHORT).tokens)}


def reread() -> dict[str, Any]:
    """Weights that cannot be moved are forgotten for the image model, and read again for the next reply."""
    base = open_chat(f"transformers:{TINY / 'critic'}", device="cpu", share=False)
    before = base.reply(ASK, SHORT).text
    managed = ours.ManagedModel.of_reloadable(base.base)
    size = managed.size
    with fresh(int(size * 1.2) + 256 * KILO):
        held_at_first = agents_loaded()
        managed.ensure_loaded(KILO)
        kept = base.base.model is not None
        mm.free_memory(2 * gpu.size, GPU)
        forgotten = base.base.model is None
        managed.ensure_loaded(KILO)
        again = base.base.model is not None
        mm.unload_all_models()
        same = base.reply(ASK, SHORT).text == before
    return {"registered": held_at_first, "kept": kept, "forgotten": forgotten, "again": again, "same": same}


def question_cache() -> dict[str, Any]:
    """The keys and values of an agent's last question leave the GPU together with its weights."""
    chat, module = agent("critic", on=False)
    image_model = diffusion(ours.bytes_of(module) // KILO)
    cached = []
    with fresh(int(ours.bytes_of(module) * 1.5) + 512 * KILO):
        for make_room in (
            lambda: mm.load_models_gpu([image_model], memory_required=64 * KILO),
            mm.unload_all_models,
            lambda: offload_others(None),
        ):
            chat.reply(ASK, SHORT)
            before = module in _questions
            make_room()
            cached.append([before, module in _questions])
    base = open_chat(f"transformers:{TINY / 'critic'}", device="cpu", share=False)
    managed = ours.ManagedModel.of_reloadable(base.base)
    with fresh(int(managed.size * 1.2) + 256 * KILO):
        managed.ensure_loaded(KILO)
        base.reply(ASK, SHORT)
        weights = base.base.model
        before = weights in _questions
        mm.free_memory(2 * gpu.size, GPU)
        cached.append([before, weights in _questions])
    return {"cached": cached}


def server() -> dict[str, Any]:
    """A server with weights on the GPU (llama.cpp) ends for the image model, and the other way round."""

    class Process:
        size = 600 * KILO
        on_card = True
        ended = 0

        def restore(self) -> None:
            return

        def release(self) -> None:
            self.ended += 1

    class Chat:
        identity, prompt_set, server = "a server", None, Process()

        def reply(self, *_: Any) -> Reply:
            return Reply(text="Yes.")

    chat, process = ManagedChat(Chat()), Chat.server
    assert chat.get_ram_usage() == process.size
    chat.working_bytes = lambda *_: KILO  # type: ignore[method-assign]
    with fresh(1024 * KILO):
        image_model = diffusion(640)
        mm.load_models_gpu([image_model])
        alone = on_gpu(image_model.model)
        chat.reply(ASK, SHORT)
        with_server, ended = on_gpu(image_model.model), process.ended
        chat.reply(ASK, SHORT)
        stays = process.ended
        mm.free_memory(2 * gpu.size, GPU)
        evicted = process.ended
        chat.reply(ASK, SHORT)
        offload_others(None)
        left = process.ended
    return {"alone": alone, "with_server": with_server, "ended": [ended, stays, evicted, left]}


def asked() -> dict[str, Any]:
    """The memory requested for a reply is an estimate that grows with images and long answers."""
    chat, module = agent("critic")
    wanted: list[int] = []
    inner = mm.load_models_gpu

    def noted(*args: Any, memory_required: int = 0, **kwargs: Any) -> Any:
        wanted.append(memory_required)
        return inner(*args, memory_required=memory_required, **kwargs)

    page = Picture.white((96, 96))
    with fresh(64 * KILO * KILO):
        mm.load_models_gpu = noted
        try:
            chat.reply(ASK, SHORT)
            chat.reply([Message(role="user", content=(page, page, "A boat?"))], SHORT)
        finally:
            mm.load_models_gpu = inner
    each = module.dtype.itemsize / 2
    estimate = agent_work(agent_shape(module.config.to_dict()), 7 // 3, [], SHORT.max_tokens) * 1.1 * each
    longer = chat.working_bytes(ASK, 500)
    return {"words": wanted[0], "images": wanted[1], "estimate": int(estimate), "longer": longer}


def said(act: Callable[[], object]) -> str:
    try:
        act()
    except ChatError as error:
        return str(error)
    return ""


SCENARIOS: dict[str, Callable[[], Any]] = {
    "normal": lambda: alternate(mm.VRAMState.NORMAL_VRAM),
    "lowvram": lambda: alternate(mm.VRAMState.LOW_VRAM), "novram": lambda: alternate(mm.VRAMState.NO_VRAM),
    "highvram": lambda: alternate(mm.VRAMState.HIGH_VRAM), "planner_first": planner_first,
    "stays": stays, "shared": shared, "unloaded": unloaded,
    "too_big": too_big, "runs_out_while_loading": runs_out_while_loading,
    "runs_out_while_writing": runs_out_while_writing, "reread": reread, "question_cache": question_cache,
    "server": server, "asked": asked,
}  # fmt: skip

if __name__ == "__main__":
    with torch.inference_mode():
        results = {name: act() for name, act in SCENARIOS.items()}
    print(f"RESULTS {json.dumps(results)}")
