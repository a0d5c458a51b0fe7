"""Whether a request asks for images, in the host's languages: clear phrases only."""

from __future__ import annotations

import pytest
from PIL import Image

from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.types import Request
from interleave_thinker.backend.story.agents.plan_lint.requested import asks_for_images

PICTURE = Picture(Image.new("RGB", (8, 6)))
ASKING = (
    "Please draw every step of making tea.",
    "Tell me how bees make honey, with illustrations.",
    "The life of a frog. Four pictures.",
    "Illustrate the water cycle.",
    "A storyboard about a heist, with one picture for each scene.",
    "Zeige, wie man einen Knopf annäht.",
    "Erkläre die Mondphasen mit Bildern.",
    "Male einen Wal und danach ein Boot.",
    "Explique le cycle de l'eau avec des images.",
    "Dessine-moi un mouton.",
    "Une recette de crêpes, une image par étape.",
    "Explica los volcanes con imágenes.",
    "Explique o ciclo da água com imagens.",
    "Расскажи сказку с картинками.",
    "Нарисуй кота в шляпе.",
    "Dört adımda çay demlemeyi göster.",
    "请画一只猫。",
    "請畫一座山，再加上雪。",
    "猫の一日をイラストで説明して。",
    "김치 담그는 법을 그림으로 설명해 줘.",
)
NOT_ASKING = (
    "Explain without pictures why the sky is blue.",
    "Why is the sky blue?",
    "Show that the square root of two is irrational.",
    "A cart that two horses draw crosses a bridge. Tell it in words.",
    "Write a poem about a picture of Dorian Gray. Text only.",
    "Do not draw anything, just explain.",
    "What do these three pictures have in common?",
    "Erkläre ohne Bilder, warum Eis schwimmt.",
    "Was ist ein Comic?",
    "¿Qué es un cómic?",
    "Beschreibe das Bild an der Wand.",
    "Explique sans images pourquoi il pleut.",
    "Montre que ce nombre est premier.",
    "Explica sin imágenes qué es un eclipse.",
    "Explique sem imagens o que é um eclipse.",
    "Объясни без картинок, почему идёт дождь.",
    "Resim olmadan açıkla: yağmur nasıl yağar?",
    "不要图片，解释为什么会下雨。",
    "我的计划是什么？画家是谁？",
    "不用圖，只要文字說明。",
    "画像なしで説明して。",
    "그림 없이 설명해 줘.",
)


@pytest.mark.parametrize("text", ASKING)
def test_a_request_for_images_is_found(text: str) -> None:
    assert asks_for_images(Request(text=text))


@pytest.mark.parametrize("text", NOT_ASKING)
def test_a_request_for_text_is_no_request_for_images(text: str) -> None:
    assert not asks_for_images(Request(text=text))


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("Describe the two images.", False),
        ("How many cats are in the image?", False),
        ("Compare the clothes in these pictures with images of the past.", False),
        ("Draw the same cat in winter.", True),
        ("Continue the story and draw two more scenes.", True),
    ],
)
def test_with_images_in_the_request_only_a_verb_counts(text: str, asks: bool) -> None:
    assert asks_for_images(Request(text=text, images=(PICTURE,))) is asks
