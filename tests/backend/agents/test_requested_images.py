"""Whether a request asks for images, in the host's languages: clear phrases only."""

from __future__ import annotations

import pytest
from PIL import Image

from interleave_thinker.backend.agents.requested.images import asks_for_images
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.types import Request

PICTURE = Picture(Image.new("RGB", (8, 6)))
ASKING = (
    "Please draw every step of making tea.",
    "Tell me how bees make honey, with illustrations.",
    "Explain photosynthesis in simple pictures.",
    "The life of a frog. Four pictures.",
    "Illustrate the water cycle.",
    "A storyboard about a heist, with one picture for each scene.",
    "First describe the recipe, then draw the finished cake.",
    "Generate an image of a lighthouse.",
    "Show a robot stacking three cubes.",
    "Zeige, wie man einen Knopf annäht.",
    "Erkläre die Mondphasen mit Bildern.",
    "Fünf Bilder: ein Tag am Meer.",
    "Male einen Wal und danach ein Boot.",
    "Explique le cycle de l'eau avec des images.",
    "Dessine-moi un mouton.",
    "Montre comment plier une grue.",
    "Une recette de crêpes, une image par étape.",
    "Explica los volcanes con imágenes.",
    "Muéstrame cómo plantar un árbol.",
    "Explique o ciclo da água com imagens.",
    "Por favor, desenhe um farol.",
    "Расскажи сказку с картинками.",
    "Нарисуй кота в шляпе.",
    "Покажи, как завязать галстук.",
    "Dört adımda çay demlemeyi göster.",
    "Bir gemi çiz, sonra bir ada çiz.",
    "Resimli bir masal anlat.",
    "请画一只猫。",
    "教我包饺子，每一步都配图。",
    "請畫一座山，再加上雪。",
    "猫の一日をイラストで説明して。",
    "お城を描いて。",
    "고양이를 그려 줘.",
    "김치 담그는 법을 그림으로 설명해 줘.",
)
NOT_ASKING = (
    "Explain without pictures why the sky is blue.",
    "Why is the sky blue?",
    "Who painted the Mona Lisa?",
    "Show that the square root of two is irrational.",
    "Show me why this proof works.",
    "A cart that two horses draw crosses a bridge. Tell it in words.",
    "Write a poem about a picture of Dorian Gray. Text only.",
    "Do not draw anything, just explain.",
    "What do these three pictures have in common?",
    "List the drawings of Leonardo.",
    "Erkläre ohne Bilder, warum Eis schwimmt.",
    "Zeige, dass die Summe gerade ist.",
    "Was ist ein Comic?",
    "¿Qué es un cómic?",
    "Что такое комикс?",
    "漫画とは何ですか。",
    "Beschreibe das Bild an der Wand.",
    "Explique sans images pourquoi il pleut.",
    "Montre que ce nombre est premier.",
    "Explica sin imágenes qué es un eclipse.",
    "Describe las dos imágenes.",
    "Explique sem imagens o que é um eclipse.",
    "Объясни без картинок, почему идёт дождь.",
    "Опиши эту картину.",
    "Resim olmadan açıkla: yağmur nasıl yağar?",
    "Bu resim ne gösteriyor?",
    "不要图片，解释为什么会下雨。",
    "这幅画的作者是谁？",
    "我的计划是什么？画家是谁？",
    "不用圖，只要文字說明。",
    "画像なしで説明して。",
    "この絵は誰の作品ですか。",
    "그림 없이 설명해 줘.",
    "이 그림은 누구의 작품인가요?",
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
