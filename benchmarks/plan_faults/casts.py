"""Plans with a cast, and faults that contradict it: two plans that have the same request for each fault.

The third story of every language is held out, with phrasings of its own. The prompts without a fault contain
what looks like one: letters to somebody, strangers in other colors, crowds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from interleave_thinker.backend.cast import CastMember
from interleave_thinker.backend.types import Plan, Step

from .planted import Planted


class CastStory(NamedTuple):
    """A story of two characters and a third one.

    Attributes:
        names: The three names.
        traits: A colored trait of each.
        request: The request, which names all three.
        prompts: The first two are in the first three prompts, the third one is alone in the last.
        named: What shows the third one in the second prompt, where the list does not have it.
        changed: What shows the first one in another color, without a change.
        counted: What is more people than two.
    """

    names: tuple[str, str, str]
    traits: tuple[str, str, str]
    request: str
    prompts: tuple[str, str, str, str]
    named: str
    changed: str
    counted: str


STORIES = {
    "en": (
        CastStory(
            ("Mia", "Tom", "Rosa"),
            ("red coat", "short black hair", "green wool hat"),
            "Mia and Tom bring a letter to Rosa. Four pictures.",
            (
                "Mia writes a letter to Rosa at a desk, Tom holds the ink",
                "Mia in her red coat walks through the snow beside Tom, a man in a blue coat waves to them",
                "Mia and Tom stand in front of Rosa's house between many other people",
                "Rosa in a green hat reads the letter by the fire",
            ),
            ", Rosa waits at the window",
            ", Mia wears a blue coat",
            ", three children in the snow",
        ),
        CastStory(
            ("Captain Bo", "Lin", "Old Sam"),
            ("white beard", "yellow raincoat", "brown boots"),
            "Captain Bo and Lin search for Old Sam on an island, in four pictures.",
            (
                "Captain Bo and Lin look at a photo of Old Sam on the deck",
                "Captain Bo rows to the island, Lin in a yellow raincoat points at a black rock",
                "Lin follows footprints in the sand, Captain Bo holds a blue lantern",
                "Old Sam sits under a palm tree in brown boots",
            ),
            " while Old Sam watches from a palm tree",
            ", Captain Bo with a black beard steers",
            ", five friends sing",
        ),
        CastStory(
            ("Zoe", "Ben", "Grandma Ida"),
            ("purple dress", "gray cap", "white apron"),
            "Zoe and Ben bake a cake with Grandma Ida. Four scenes.",
            (
                "Zoe reads a recipe of Grandma Ida aloud, Ben in a gray cap brings the flour",
                "Zoe stirs the dough in a white bowl, Ben licks a red spoon",
                "Ben opens the oven, Zoe has a purple dress with white flour on it",
                "Grandma Ida in her white apron cuts the cake",
            ),
            ", Grandma Ida laughs behind them",
            ". Zoe's green dress is full of flour",
            ". Four kids dance around the table",
        ),
    ),
    "zh": (
        CastStory(
            ("小明", "小红", "王奶奶"),
            ("蓝色外套", "黑头发", "白围裙"),
            "小明和小红给王奶奶送信，四幅图。",
            (
                "小明在桌前给王奶奶写信，小红拿着墨水",
                "小明穿着蓝色外套走在雪地里，小红跟着，一位穿红外套的先生挥手",
                "小明和小红站在王奶奶的房子前面",
                "王奶奶系着白围裙在炉边读信",
            ),
            "，王奶奶在窗边等待",
            "，小明穿着红色外套",
            "，三个孩子在雪地里",
        ),
        CastStory(
            ("阿强", "阿丽", "老船长"),
            ("绿帽子", "黄裙子", "白胡子"),
            "阿强和阿丽寻找老船长，四幅图。",
            (
                "阿强和阿丽看着老船长的照片",
                "阿强戴着绿帽子划船，阿丽指着黑色的石头",
                "阿丽穿着黄裙子跟着脚印走，阿强提着灯",
                "老船长坐在棕榈树下",
            ),
            "，老船长站在旁边",
            "，阿强戴着一顶红帽子",
            "，五个朋友一起唱歌",
        ),
        CastStory(
            ("小兰", "小刚", "李叔叔"),
            ("紫色裙子", "灰帽子", "棕色靴子"),
            "小兰和小刚帮李叔叔摘苹果，四幅图。",
            (
                "小兰和小刚在果园门口，树上有红苹果",
                "小兰爬上梯子，小刚戴着灰帽子扶着梯子",
                "小兰穿着紫色裙子提着白色的篮子，小刚在旁边",
                "李叔叔穿着棕色靴子吃苹果",
            ),
            "，李叔叔在树下大笑",
            "，小兰穿着绿色裙子",
            "，四个小朋友跳舞",
        ),
    ),
    "es": (
        CastStory(
            ("Lucía", "Pablo", "Carmen"),
            ("abrigo rojo", "pelo negro", "sombrero verde"),
            "Lucía y Pablo llevan una carta a Carmen, en cuatro imágenes.",
            (
                "Lucía escribe una carta para Carmen en la mesa, Pablo sujeta la tinta",
                "Lucía con su abrigo rojo camina por la nieve junto a Pablo, un hombre de abrigo azul saluda",
                "Lucía y Pablo delante de la casa de Carmen entre mucha gente",
                "Carmen con el sombrero verde lee la carta junto al fuego",
            ),
            ", Carmen espera en la ventana",
            ", Lucía lleva un abrigo azul",
            ", tres niños en la nieve",
        ),
        CastStory(
            ("Bruno", "Inés", "Don Paco"),
            ("barba blanca", "vestido amarillo", "botas marrones"),
            "Bruno e Inés buscan a Don Paco en una isla, en cuatro escenas.",
            (
                "Bruno e Inés miran una foto de Don Paco en la cubierta",
                "Bruno rema hacia la isla, Inés con un vestido amarillo señala una roca negra",
                "Inés sigue unas huellas en la arena, Bruno lleva una linterna azul",
                "Don Paco sentado bajo una palmera con botas marrones",
            ),
            " mientras Don Paco mira desde una palmera",
            ", Bruno con la barba negra",
            ", cinco amigos cantan",
        ),
        CastStory(
            ("Elena", "Mateo", "La abuela Ana"),
            ("vestido morado", "gorra gris", "delantal blanco"),
            "Elena y Mateo hacen una tarta con La abuela Ana. Cuatro pasos.",
            (
                "Elena lee una receta en la cocina, Mateo con su gorra gris trae la harina",
                "Elena mezcla la masa en un cuenco blanco, Mateo lame una cuchara roja",
                "Mateo abre el horno, Elena tiene el vestido morado lleno de harina",
                "La abuela Ana con el delantal blanco corta la tarta",
            ),
            ", La abuela Ana ríe detrás de ellos",
            ", Elena lleva un vestido verde",
            ", cuatro personas bailan",
        ),
    ),
    "de": (
        CastStory(
            ("Mia", "Tom", "Rosa"),
            ("roter Mantel", "schwarze Haare", "grüner Hut"),
            "Mia und Tom bringen Rosa einen Brief. Vier Bilder.",
            (
                "Mia schreibt am Tisch einen Brief an Rosa, Tom hält die Tinte",
                "Mia in einem roten Mantel geht mit Tom durch den Schnee, ein Mann im blauen Mantel winkt",
                "Mia und Tom stehen vor dem Haus von Rosa zwischen vielen Leuten",
                "Rosa mit grünem Hut liest den Brief am Feuer",
            ),
            ", Rosa wartet am Fenster",
            ", Mia trägt einen blauen Mantel",
            ", drei Kinder im Schnee",
        ),
        CastStory(
            ("Kapitän Bo", "Lena", "Opa Sam"),
            ("weißer Bart", "gelbe Jacke", "braune Stiefel"),
            "Kapitän Bo und Lena suchen Opa Sam auf einer Insel, in vier Bildern.",
            (
                "Kapitän Bo und Lena sehen ein Foto von Opa Sam an, auf dem Deck",
                "Kapitän Bo rudert zur Insel, Lena in ihrer gelben Jacke zeigt auf einen schwarzen Felsen",
                "Lena folgt Spuren im Sand, Kapitän Bo hält eine blaue Laterne",
                "Opa Sam mit braunen Stiefeln sitzt unter einer Palme",
            ),
            ", während Opa Sam von einer Palme zusieht",
            ", Kapitän Bo mit schwarzem Bart steuert",
            ", fünf Freunde singen",
        ),
        CastStory(
            ("Nele", "Jan", "Tante Ute"),
            ("violettes Kleid", "graue Mütze", "weiße Schürze"),
            "Nele und Jan backen mit Tante Ute einen Kuchen. Vier Szenen.",
            (
                "Nele liest ein Rezept vor, Jan mit seiner grauen Mütze bringt das Mehl",
                "Nele rührt den Teig in einer weißen Schüssel, Jan leckt an einem roten Löffel",
                "Jan öffnet den Ofen, Nele hält einen weißen Lappen",
                "Tante Ute mit weißer Schürze schneidet den Kuchen",
            ),
            ", Tante Ute lacht hinter ihnen",
            ", Jan hat eine blaue Mütze",
            ", vier Personen tanzen um den Tisch",
        ),
    ),
}


def planted_casts() -> Iterator[Planted]:
    """Yield a pair of plans for each story and rule of a cast."""
    for language, stories in STORIES.items():
        for number, story in enumerate(stories):
            good = _plan(story, list(story.prompts))
            prompts = {
                "cast-left-out": _with(story, 1, story.named),
                "cast-changed": _with(story, 2, story.changed),
                "cast-count": _with(story, 1, story.counted),
            }
            for rule, faulty in prompts.items():
                yield Planted(rule, number == 2, language, story.request, _plan(story, faulty), good)
            last = story.prompts[3].replace(story.names[2], story.names[1])
            missing = _plan(story, [*story.prompts[:3], last], 1)
            yield Planted("cast-missing", number == 2, language, story.request, missing, good)


def _with(story: CastStory, place: int, words: str) -> list[str]:
    prompts = list(story.prompts)
    prompts[place] += words
    return prompts


def _plan(story: CastStory, prompts: list[str], last: int = 2) -> Plan:
    """Return the plan; `last` is the place of the name that is listed in the last step."""
    cast = tuple(
        CastMember(name=name, traits=(trait,)) for name, trait in zip(story.names, story.traits, strict=True)
    )
    lists = [story.names[:2]] * 3 + [(story.names[last],)]
    steps = (
        Step(number=number, prompt=prompt, cast=names)
        for number, (prompt, names) in enumerate(zip(prompts, lists, strict=True), 1)
    )
    return Plan(steps=tuple(steps), cast=cast)
