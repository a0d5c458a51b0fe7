"""Phrasings of planted faults by rule and language: those that the rules were tuned on, and held-out ones.

A phrasing is what is put into a plan without faults. `{p}` is a prompt of the plan. Texts and goals are
pairs: a sentence that is added to the request, and what a good plan then contains.
"""

from __future__ import annotations

from typing import NamedTuple


class Phrasings(NamedTuple):
    """Phrasings of one fault in one language."""

    tuned: tuple[str, ...]
    held_out: tuple[str, ...]


META = {
    "en": Phrasings(
        (
            "The same scene as before, but at night. {p}",
            "{p}, as in step 2",
            "{p}, like in the previous step",
        ),
        ("{p}. Keep everything from the last step", "Continue from step 1: {p}", "{p}, see step 1"),
    ),
    "zh": Phrasings(("和之前一样，{p}", "{p}，与第1步相同"), ("如上一步所述，{p}", "{p}，同上")),
    "es": Phrasings(
        ("Igual que antes, {p}", "{p}, como en el paso 1"),
        ("{p}, como en el paso anterior", "Como se describe arriba: {p}"),
    ),
    "de": Phrasings(
        ("Wie zuvor, {p}", "{p}, wie in Schritt 1"),
        ("{p}, genau wie im vorigen Schritt", "Wie oben beschrieben: {p}"),
    ),
}
SUBJECT = {
    "en": Phrasings(
        ("He walks slowly towards the light, evening", "It is now bright green", "Make it blue"),
        (
            "They sit down together and rest, soft light",
            "Give him a yellow scarf",
            "It stands on a hill at night",
        ),
    ),
    "zh": Phrasings(("他慢慢走向远处，傍晚", "把它涂成蓝色"), ("她坐下来休息", "给它加上红色围巾")),
    "es": Phrasings(
        ("Ella sonríe y saluda, colores cálidos", "Píntalo de azul"),
        ("Él camina despacio hacia la luz", "Ponle una bufanda amarilla"),
    ),
    "de": Phrasings(
        ("Er geht langsam zum Licht, abends", "Färbe es blau"),
        ("Sie setzt sich und ruht sich aus", "Gib ihm einen gelben Schal"),
    ),
}
UNFINISHED = {
    "en": Phrasings(
        ("{p}, and the", "caption:To be continued..."),
        ("{p}, next to a", "caption:Find out in the next part!"),
    ),
    "zh": Phrasings(("{p}，然后", "caption:未完待续"), ("{p}，旁边有", "caption:敬请期待下一集")),
    "es": Phrasings(
        ("{p} y la", "caption:Continuará"), ("{p} junto a un", "caption:Sigue en la próxima parte")
    ),
    "de": Phrasings(
        ("{p} und die", "caption:Fortsetzung folgt"), ("{p} neben einem", "caption:Weiter im nächsten Teil")
    ),
}
UNASKED = {
    "en": Phrasings(
        ('{p}, with the caption "The End"', "{p}, a speech bubble says 'Hello!'"),
        ("{p}, the words 'Chapter One' in big letters", "{p}, titled “A New Day” at the top"),
    ),
    "zh": Phrasings(("{p}，画面上写着“完”",), ("{p}，顶部有标题“第一章”",)),
    "es": Phrasings(("{p}, con el texto 'Fin'",), ("{p}, con un título que dice «Un día»",)),
    "de": Phrasings(("{p}, mit dem Text „Ende“",), ("{p}, oben die Überschrift „Ein neuer Tag“",)),
}
HEADS = {
    # Bad and good, separated by a line.
    "en": Phrasings(
        (
            "three kittens: a black kitten and a white kitten\na black kitten, a white kitten and a gray "
            "kitten",
            "two children, one with a drum, one with a flag and one with a kite\none with a drum and one "
            "with a flag",
        ),
        (
            "four birds: a robin, a sparrow and a wren\na robin, a sparrow, a wren and a finch",
            "a group of three friends, one tall and one short\none tall, one short and one in a hat",
        ),
    ),
    "zh": Phrasings(
        ("三只小猫：一只黑猫和一只白猫\n一只黑猫、一只白猫和一只灰猫",),
        ("两个孩子，一个拿着鼓，一个拿着旗，一个拿着风筝\n一个拿着鼓，一个拿着旗",),
    ),
    "es": Phrasings(
        ("tres gatitos: un gato negro y un gato blanco\nun gato negro, un gato blanco y un gato gris",),
        (
            "dos niños, uno con un tambor, otro con una bandera y otro con una cometa\nuno con un tambor "
            "y otro con "
            "una bandera",
        ),
    ),
    "de": Phrasings(
        (
            "drei Katzen: eine schwarze Katze und eine weiße Katze\neine schwarze Katze, eine weiße Katze "
            "und eine "
            "graue Katze",
        ),
        (
            "zwei Kinder, eines mit Trommel, eines mit Fahne und eines mit Drachen\neines mit Trommel und "
            "eines mit "
            "Fahne",
        ),
    ),
}
TEXTS = {
    # Sentence of the request, and end of the last prompt of a good plan.
    "en": Phrasings(
        (
            " On the last page a sign reads 'HOME'.\n, a sign that reads 'HOME'",
            ' The final image shows a banner with the words "WELL DONE".\n, above it a banner with the '
            'words "WELL '
            'DONE"',
        ),
        (
            " End with a flag that says “FINIS”.\n, a flag that says “FINIS”",
            ' A board with the inscription "OPEN" hangs in the last scene.\n, a board with "OPEN" in '
            "white paint",
        ),
    ),
    "zh": Phrasings(
        ("最后一张图里有一块写着“回家”的牌子。\n，旁边的牌子上写着“回家”",),
        ("最后的横幅上有“加油”两个字。\n，横幅上有“加油”两个字",),
    ),
    "es": Phrasings(
        (" Al final hay un letrero que dice 'CASA'.\n, un letrero que dice 'CASA'",),
        (" En la última imagen, un cartel con el texto «FIN».\n, un cartel con el texto «FIN»",),
    ),
    "de": Phrasings(
        (
            " Am Ende hängt ein Schild mit der Aufschrift „ZUHAUSE“.\n, ein Schild mit der Aufschrift "
            "„ZUHAUSE“",
        ),
        (" Im letzten Bild steht auf einem Banner „GESCHAFFT“.\n, auf einem Banner steht „GESCHAFFT“",),
    ),
}
GOALS = {
    # Sentence of the request, prompt of a good last step, and what a plan without the goal shows instead.
    "en": Phrasings(
        (
            " Then add a red kite.\nAdd a red kite in the sky\nThe scene in evening light, wide view",
            " Put two lanterns next to the path.\nTwo glowing lanterns stand beside the path\nThe path in "
            "the fog",
        ),
        (
            " Also draw a small tortoise.\nA small tortoise crawls through the grass\nThe grass in the "
            "morning sun",
            " Finally, place a trumpet on the floor.\nPlace a trumpet on the floor in front\nThe floor "
            "with long shadows",
        ),
    ),
    "zh": Phrasings(
        ("再加上一只红色的风筝。\n天上加上一只红色的风筝\n傍晚的天空，远景",),
        ("最后画上两只蝴蝶。\n两只蝴蝶飞过，阳光明亮\n明亮的阳光，远景",),
    ),
    "es": Phrasings(
        (" Luego añade una cometa roja.\nAñade una cometa roja en el cielo\nEl cielo al atardecer",),
        (" Al final, pon dos mariposas.\nDos mariposas vuelan en la luz\nLa luz de la tarde",),
    ),
    "de": Phrasings(
        (" Füge dann einen roten Drachen hinzu.\nEin roter Drachen fliegt am Himmel\nDer Himmel am Abend",),
        (
            " Male zum Schluss zwei Schmetterlinge dazu.\nZwei Schmetterlinge fliegen im Licht\nDas Licht "
            "am Nachmittag",
        ),
    ),
}
