"""Similarity and lettering with small models of the library's own classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.tiny_scorers import clip_folder, got_folder, siglip_folder, trocr_folder

from interleave_thinker.backend.chat.scripted import ScriptedChat
from interleave_thinker.backend.errors import ScorerError, SettingsError
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.scorers import open_scorer
from interleave_thinker.backend.scorers.local import lettering
from interleave_thinker.backend.scorers.local.lettering import (
    ChatReader,
    LetteringScorer,
    closeness,
    plain,
    requested_texts,
)
from interleave_thinker.backend.types import Score

RED, BLUE = (Picture(Image.new("RGB", (40, 30), color)) for color in ((200, 10, 10), (10, 10, 200)))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("scorers")
    made = {"clip": clip_folder, "siglip": siglip_folder, "trocr": trocr_folder}
    return {name: make(root / name) for name, make in made.items()}


def test_clip_similarity_is_its_clipscore(models: dict[str, Path]) -> None:
    import torch
    from transformers import CLIPModel, CLIPProcessor

    model, processor = (kind.from_pretrained(models["clip"]) for kind in (CLIPModel, CLIPProcessor))
    prompts = ["a boat", "the sun at night", "12345", "ZZZ!!!", "a long row of boats " * 20]
    inputs: Any = processor(
        text=prompts, images=[RED.image], return_tensors="pt", padding=True, truncation=True
    )
    with torch.inference_mode():
        cosines = model(**inputs).logits_per_image[0] / model.logit_scale.exp()
    assert cosines.max() > 0.05 and cosines.min() < -0.05
    scorer = open_scorer(f"similarity:{models['clip']}")
    for prompt, cosine in zip(prompts, cosines, strict=True):
        expected = min(10.0, max(0.0, 25 * float(cosine)))
        found = scorer.score(BLUE, RED, prompt)
        assert found.semantics == pytest.approx(expected, abs=1e-4) and found.quality == 10


def test_siglip_similarity_is_its_probability(models: dict[str, Path]) -> None:
    import torch
    from transformers import SiglipModel, SiglipProcessor

    model, processor = (kind.from_pretrained(models["siglip"]) for kind in (SiglipModel, SiglipProcessor))
    inputs: Any = processor(text=["a boat"], images=[RED.image], return_tensors="pt", padding="max_length")
    with torch.inference_mode():
        probability = float(model(**inputs).logits_per_image.sigmoid())
    scorer = open_scorer(f"similarity:{models['siglip']}")
    assert scorer.score(None, RED, "a boat").semantics == pytest.approx(10 * probability, abs=1e-4)
    assert scorer.score(None, RED, "a boat " * 200).semantics >= 0, "longer than the context"


@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_similarity_with_the_source_measures_what_is_preserved(name: str, models: dict[str, Path]) -> None:
    scorer: Any = open_scorer(f"similarity[of=source,device=cpu]:{models[name]}")
    same, other = (scorer.score(RED, after, "a boat").semantics for after in (RED, BLUE))
    assert same == pytest.approx(10) and other < 9
    assert scorer.parts(None, RED, "a boat") == (None, None)
    scorer.offload()
    assert scorer.score(RED, BLUE, "a boat").semantics == other


def test_folders_of_other_models_are_errors(models: dict[str, Path], tmp_path: Path) -> None:
    for name, folder in (("similarity", "trocr"), ("lettering:ocr", "clip")):
        with pytest.raises(SettingsError, match="is needed here"):
            open_scorer(f"{name}:{models[folder]}")
    with pytest.raises(SettingsError, match="is not a model folder"):
        open_scorer(f"similarity:{tmp_path}")
    with pytest.raises(SettingsError, match="of='style'"):
        open_scorer(f"similarity[of=style]:{models['clip']}")
    damaged = clip_folder(tmp_path / "clip")
    weights = damaged / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4000])
    with pytest.raises((ScorerError, SettingsError)):
        open_scorer(f"similarity:{damaged}").score(None, RED, "a boat")


def test_trocr_reads_what_it_was_taught(models: dict[str, Path], tmp_path: Path) -> None:
    teach(models["trocr"], {RED: "OPEN", BLUE: "shut"}, tmp_path / "taught")
    scorer: Any = open_scorer(f"lettering:ocr:{tmp_path / 'taught'}")
    assert [scorer.reader.read(image) for image in (RED, BLUE)] == ["OPEN", "shut"]
    assert scorer.score(None, RED, 'a sign "Open"') == Score(semantics=10, quality=10)
    assert scorer.score(None, BLUE, 'a sign "Open"').semantics == 0


def test_got_ocr_returns_its_answer_without_its_prompt(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(lettering, "MAX_TOKENS", 3)
    scorer: Any = open_scorer(f"lettering:ocr:{got_folder(tmp_path / 'got')}")
    assert scorer.reader.read(RED) == "!!!"


def teach(folder: Path, texts: dict[Picture, str], out: Path) -> None:
    """Train an OCR model to write these texts."""
    import torch
    from transformers import TrOCRProcessor, VisionEncoderDecoderModel

    model: Any = VisionEncoderDecoderModel.from_pretrained(folder)
    processor: Any = TrOCRProcessor.from_pretrained(folder)
    pixels = processor(images=[image.image for image in texts], return_tensors="pt").pixel_values
    labels = torch.tensor([processor.tokenizer(text).input_ids for text in texts.values()])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(200):
        loss = model(pixel_values=pixels, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if loss.item() < 0.01:
            break
    model.save_pretrained(out)
    processor.save_pretrained(out)


@pytest.mark.parametrize(
    ("prompt", "texts"),
    [
        ('A shop with a sign "OPEN 24h" and a poster “Sale”', ["open24h", "sale"]),
        ("A house.", []),
        ('Replace the sign "OPEN" with "CLOSED"', ["closed"]),
        ('Remove the title "Winter"', []),
        ('Remove the cat. Add a sign "Winter"', ["winter"]),
        ('"Stop" and again "STOP!"', ["stop"]),
        ("写着「营业中」的牌子", ["营业中"]),
    ],
)
def test_requested_texts_are_those_in_quotes(prompt: str, texts: list[str]) -> None:
    assert requested_texts(prompt) == texts


def test_the_worst_requested_text_decides() -> None:
    chat = ScriptedChat(["SALE\nO P E N  today", "SALE\nOQQE", "<none>", "<think>OPEN SALE</think>SALE"])
    scorer = LetteringScorer(ChatReader(chat))
    prompt = 'signs "Open" and "Sale!"'
    assert [scorer.score(None, RED, prompt).semantics for _ in range(4)] == [10, 2.5, 0, 2.5]
    assert chat.requests[0].messages[0].content[0] == RED
    assert scorer.parts(None, RED, "no lettering") == (None, None)
    assert len(chat.requests) == 4, "nothing is read if nothing is requested"


def test_lettering_frees_the_device_of_its_reader() -> None:
    class Leaving(ScriptedChat):
        freed = 0

        def offload(self) -> None:
            self.freed += 1

    chat = Leaving([])
    LetteringScorer(ChatReader(chat)).offload()
    assert chat.freed == 1


def test_closeness_is_one_minus_the_relative_edit_distance() -> None:
    assert closeness("open", plain("We are OPEN!")) == 1
    assert closeness("open", "opan") == 0.75
    assert closeness("open", "") == 0
    assert closeness("bakery", "xxbakreyxx") == pytest.approx(1 - 2 / 6)
