"""What a request asks for in several languages: a number of steps, and images."""

from __future__ import annotations

import pytest
from PIL import Image

from interleave_thinker import Picture, Request
from interleave_thinker.backend.story.agents.requested import AskedCount, asked_count, asks_for_images

FORTY = AskedCount(40, 40, exact=True)


@pytest.mark.parametrize(
    "text",
    [
        "In exactly 40 steps, not 38: A tale.",
        "A tale in forty pictures, with 3 scenes of rain.",
        "分40个步骤",
        "40コマの漫画で",
        "a 40-step guide",
    ],
)
def test_an_exact_number_is_found(text: str) -> None:
    assert asked_count(text) == FORTY


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [("13 to 20 images of a fox", 13, 20), ("Mussorgsky's 10 pictures, then 30 pages", 30, 30)],
)
def test_the_allowed_number_of_steps_is_read_from_the_request(text: str, least: int, most: int) -> None:
    assert asked_count(text) == AskedCount(least, most)


EXACT = [
    ("Three pictures: a seed, a shoot, a flower.", 3), ("A story, 5 pages, each with one picture.", 5),
    ("Ein Comic mit sechs Bildern.", 6), ("Une bande dessinée de six cases sur un robot.", 6),
    ("Un cómic de seis viñetas sobre un perro.", 6), ("Explica el eclipse en dos pasos.", 2),
    ("Uma história em quadrinhos com seis quadros.", 6), ("Нарисуй три картинки про кота.", 3),
    ("Dört adımda çay demlemeyi göster.", 4), ("画六格漫画：一个男孩。", 6), ("畫兩張圖：一隻貓。", 2),
    ("四枚で朝顔の成長を見せて。", 4), ("고양이 이야기를 네 장으로 그려 줘.", 4),
]  # fmt: skip


@pytest.mark.parametrize(("text", "count"), EXACT)
def test_a_number_in_a_clear_place_is_exact(text: str, count: int) -> None:
    assert asked_count(text) == AskedCount(count, count, exact=True)


@pytest.mark.parametrize(
    "text",
    [
        "one of the pictures shows a dog",
        "Three pictures, or five scenes, as you like. Five scenes. Three pictures.",
        "pro Schritt zwei Bilder",
        "her adım için bir resim",
        "机器人走三步就停下",
        "각 단계마다 설명",
    ],
)
def test_a_number_that_may_count_something_else_is_not_exact(text: str) -> None:
    count = asked_count(text)
    assert count is None or not count.is_clear


def test_a_number_of_images_allows_text_only_steps() -> None:
    for text, of_images in (("Drei Bilder.", True), ("Drei Szenen.", False), ("in three pictures", False)):
        count = asked_count(text)
        assert count is not None and count.exact and count.of_images is of_images


PICTURE = Picture(Image.new("RGB", (8, 6)))
ASKING = (
    "Please draw every step of making tea.", "Tell me how bees make honey, with illustrations.",
    "A storyboard about a heist, with one picture for each scene.", "Zeige, wie man einen Knopf annäht.",
    "Male einen Wal und danach ein Boot.", "Explique le cycle de l'eau avec des images.",
    "Une recette de crêpes, une image par étape.", "Explique o ciclo da água com imagens.",
    "Расскажи сказку с картинками.", "Нарисуй кота в шляпе.", "Dört adımda çay demlemeyi göster.",
    "请画一只猫。",
    "猫の一日をイラストで説明して。", "김치 담그는 법을 그림으로 설명해 줘.",
)  # fmt: skip
NOT_ASKING = (
    "Explain without pictures why the sky is blue.", "Show that the square root of two is irrational.",
    "A cart that two horses draw crosses a bridge. Tell it in words.",
    "Write a poem about a picture of Dorian Gray. Text only.", "Erkläre ohne Bilder, warum Eis schwimmt.",
    "¿Qué es un cómic?", "Explique sans images pourquoi il pleut.", "Explica sin imágenes qué es un eclipse.",
    "Explique sem imagens o que é um eclipse.", "Объясни без картинок, почему идёт дождь.",
    "Resim olmadan açıkla: yağmur nasıl yağar?", "不要图片，解释为什么会下雨。",
    "我的计划是什么？画家是谁？", "画像なしで説明して。",
    "그림 없이 설명해 줘.",
)  # fmt: skip


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
