"""The number of steps that a request names, in several languages, and numbers that mean something else."""

from __future__ import annotations

import pytest

from interleave_thinker.backend.story.agents.plan_lint.requested import AskedCount, asked_count

FORTY = AskedCount(40, 40, exact=True)


@pytest.mark.parametrize(
    "text",
    [
        "In exactly 40 steps, not 38: A tale.",
        "A tale in forty pictures, with 3 scenes of rain.",
        "exactly 40 small coloured panels",
        "用四十步讲一个故事",
        "分40个步骤",
        "in 40 Schritten",
        "en 40 étapes",
        "40コマの漫画で",
        "a 40-step guide",
    ],
)
def test_an_exact_number_is_found(text: str) -> None:
    assert asked_count(text) == FORTY


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("13 to 20 images of a fox", 13, 20),
        ("12-15 steps", 12, 15),
        ("十到十五步", 10, 15),
        ("describe these three pictures", 3, 3),
        ("a walk of twenty-five drawings", 25, 25),
        ("Mussorgsky's 10 pictures, then 30 pages", 30, 30),
    ],
)
def test_the_allowed_number_of_steps_is_read_from_the_request(text: str, least: int, most: int) -> None:
    assert asked_count(text) == AskedCount(least, most)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Draw a sea page.",
        "2 cats and 3 boats",
        "in 1984 pictures",
        "Step 14 of it",
        "20 to 3 steps",
        "0 steps",
    ],
)
def test_a_request_without_a_number_has_none(text: str) -> None:
    assert asked_count(text) is None


EXACT = {
    "en": [
        ("Three pictures: a seed, a shoot, a flower.", 3),
        ("A boat in a storm. Eight scenes.", 8),
        ("A story about a dragon, 5 pages, each with one picture.", 5),
        ("Draw me seven drawings of a tree.", 7),
        ("A six-panel comic about a mouse", 6),
    ],
    "de": [
        ("Drei Bilder: Ein Kind baut eine Sandburg.", 3),
        ("Ein Comic mit sechs Bildern über eine Katze.", 6),
        ("Ein Märchen vom Mond, fünf Seiten, jede mit einem Bild.", 5),
    ],
    "fr": [
        ("Cinq images : un chat se réveille.", 5),
        ("Une bande dessinée de six cases sur un robot.", 6),
        ("Dessine trois images d'un phare.", 3),
    ],
    "es": [
        ("Un cómic de seis viñetas sobre un perro.", 6),
        ("Una niña encuentra una llave. Cinco escenas con subtítulos.", 5),
        ("Explica el eclipse en dos pasos.", 2),
        ("Dibuja cuatro imágenes de un volcán.", 4),
    ],
    "pt-BR": [
        ("Desenhe três imagens de um farol.", 3),
        ("Uma história em quadrinhos com seis quadros.", 6),
    ],
    "ru": [
        ("Нарисуй три картинки про кота.", 3),
        ("Пять сцен: корабль уходит в море.", 5),
    ],
    "tr": [
        ("Dört adımda çay demlemeyi göster.", 4),
        ("Üç resim çiz: deniz, gemi, liman.", 3),
        ("Altı karelik bir çizgi roman", 6),
    ],
    "zh": [
        ("画两张图：一只猫，一场雪。", 2),
        ("画六格漫画：一个男孩。", 6),
        ("用十二步教我做饭", 12),
        ("共5个场景", 5),
    ],
    "zh-TW": [
        ("畫兩張圖：一隻貓。", 2),
        ("用五個步驟教我摺紙", 5),
        ("共三個場景", 3),
    ],
    "ja": [
        ("四枚で朝顔の成長を見せて。", 4),
        ("4コマ漫画：猫とねずみ", 4),
        ("三つのステップで折り鶴を説明して", 3),
        ("六場面で描いて", 6),
    ],
    "ko": [
        ("고양이 이야기를 네 장으로 그려 줘.", 4),
        ("여섯 컷 만화: 기사와 쥐", 6),
        ("종이접기를 5단계로 보여 줘.", 5),
    ],
}


@pytest.mark.parametrize(
    ("text", "count"), [(text, count) for rows in EXACT.values() for text, count in rows]
)
def test_a_number_in_a_clear_place_is_exact(text: str, count: int) -> None:
    assert asked_count(text) == AskedCount(count, count, exact=True)


@pytest.mark.parametrize(
    "text",
    [
        "100 pictures of an exhibition",
        "one of the pictures shows a dog",
        "a 3-page contract lies on the desk",
        "these three pictures",
        "A room with three pictures and a lamp.",
        "Three pictures hang on the wall.",
        "The robot takes three steps to the door.",
        "A story with one picture for each page.",
        "each page with two pictures",
        "two steps lead to the house",
        "Three pictures, or five scenes, as you like. Five scenes. Three pictures.",
        "Vergleiche die drei Bilder.",
        "Ein Bild von zwei Katzen",
        "pro Schritt zwei Bilder",
        "une image par étape",
        "una imagen y un texto para cada paso",
        "Опиши эти три картинки.",
        "по одной картинке на каждый шаг",
        "На стене висят две картины.",
        "her adım için bir resim",
        "每一步配一句话",
        "第三步：加盐",
        "机器人走三步就停下",
        "この三枚を比べて",
        "これは三枚目の写真です",
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
