"""Phrases in eleven languages that ask for images, or for none. images.py uses them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Imaged:
    """How a language asks for images, or for none. All texts are patterns.

    Attributes:
        draw: Verbs at the start of a sentence that ask for images.
        show: The same, unless one of `not_seen` follows.
        not_seen: What follows "show" if an argument or a text is meant.
        with_images: Phrases that ask for images anywhere.
        without: Phrases that ask for no images.
    """

    draw: str
    show: str
    not_seen: str
    with_images: str
    without: str


_ANY = r"(?:\s[^\W\d]{1,15}){0,2}?\s"
"""Up to two words between a preposition and its noun."""
IMAGED = (
    Imaged(
        draw="draw|paint|sketch|illustrate|visualize|visualise|depict",
        show="show",
        not_seen="(?:me |us )?(?:that|why|your|whether|if|how many|how much|the (?:proof|code|working|math))",
        with_images=r"(?:with|in|as|using)(?!\s(?:the|this|these|those|my|your)\s)"
        + _ANY
        + "(?:pictures?|images?|"
        r"illustrations?|drawings?|photos?)|(?:picture|image|illustration|drawing|photo)s? (?:for|"
        r"with|in|per) "
        r"(?:each|every)|(?:an?|the) (?:comic|storyboard|picture book)(?: strip)?(?: about| in| of| "
        r"with|:)|"
        r"illustrated (?:story|guide|recipe|tale)|(?:create|generate|make|produce) (?:an?|some) "
        r"(?:picture|image|illustration|drawing|photo)s? of",
        without=r"without (?:any )?(?:pictures?|images?|illustrations?|drawings?|photos?)|no "
        r"(?:pictures?|images?|"
        r"illustrations?|drawings?|photos?)|text[ -]only|only (?:text|words)|words only|just "
        r"(?:text|words)|"
        r"in words|(?:do not|don't) (?:draw|paint|illustrate|show)",
    ),
    Imaged(
        draw="zeichnet?|zeichnen sie|malt?|male|malen sie|illustriere|illustriert|skizziere",
        show="zeige?t?|zeigen sie",
        not_seen="(?:mir |uns )?,? ?(?:dass|warum|ob|wie ?viele?)",
        with_images=r"(?:mit|in|als)(?!\s(?:de[nmr]|diese[nmr]?)\s)"
        + _ANY
        + "(?:bild(?:er)?n?|illustration(?:en)?|"
        r"zeichnung(?:en)?|fotos?)|(?:bild|zeichnung|foto) (?:zu|für|pro) (?:jede[mnrs]?|schritt)|"
        r"ein comic (?:über|mit|in|aus|von)|"
        "bildergeschichte|bebildert",
        without=r"ohne (?:jegliche |alle )?(?:bild|illustration|zeichnung|foto)\w{0,4}|keine "
        r"(?:bild|illustration|"
        r"zeichnung|foto)\w{0,4}|nur (?:(?:als |mit )?text|worte|in worten)|(?:zeichne|male) nicht",
    ),
    Imaged(
        draw="dessine[zr]?|peins|peignez|illustre[zr]?",
        show="montre[zr]?",
        not_seen="(?:-(?:moi|nous) )?(?:que|qu'|pourquoi|combien|si)",
        with_images=r"(?:avec|en)(?!\s(?:les?|la|ces?|cette)\s)"
        + _ANY
        + "(?:images?|illustrations?|dessins?|photos?)|"
        r"(?:image|dessin|illustration|photo) (?:par|pour) |une? (?:bd|bande dessinée) (?:sur|de|en|"
        r"avec)|illustrée?",
        without=r"sans (?:aucune? )?(?:images?|illustrations?|dessins?|photos?)|pas (?:d'|de "
        r")(?:images?|"
        r"illustrations?|dessins?|photos?)|(?:texte|mots) (?:seuls?|seulement|uniquement)|"
        r"(?:uniquement|seulement) "
        "(?:du texte|en mots)|ne dessine",
    ),
    Imaged(
        draw="dib[uú]ja(?:me)?|dibuje|dibujen|pinta|pinte|ilustra|ilustre",
        show="muestra|muestre|muéstrame",
        not_seen="(?:me )?(?:que|por qué|cuánt[ao]s|si)",
        with_images=r"(?:con|en)(?!\s(?:las?|los?|el|estas?|estos?)\s)"
        + _ANY
        + "(?:im[aá]gen(?:es)?|ilustraci[oó]n"
        r"(?:es)?|dibujos?|fotos?)|(?:imagen|dibujo|foto) (?:por|para) |(?:un (?:cómic|comic)|una "
        r"historieta) (?:sobre|de|con|en)|ilustrad[ao]",
        without=r"sin (?:ning[uú]n[ao]? )?(?:im[aá]gen(?:es)?|ilustraci[oó]n(?:es)?|dibujos?|fotos?)|"
        "(?:solo|sólo|únicamente|solamente) (?:texto|con palabras|palabras)|no dibujes",
    ),
    Imaged(
        draw="desenh[ae]|desenhem|pint[ae]|ilustr[ae]",
        show="mostr[ae]",
        not_seen="(?:-me )?(?:que|por que|quant[ao]s|se)",
        with_images=r"(?:com|em)(?!\s(?:as?|os?|estas?|estes?)\s)"
        + _ANY
        + "(?:image(?:m|ns)|ilustraç(?:ão|ões)|"
        r"desenhos?|fotos?)|(?:imagem|desenho|foto) (?:por|para) |uma (?:hq|história em quadrinhos) "
        r"(?:sobre|de|com|em)|ilustrad[ao]",
        without=r"sem (?:nenhuma? )?(?:image(?:m|ns)|ilustraç(?:ão|ões)|desenhos?|fotos?)|"
        "(?:só|somente|apenas) (?:texto|com palavras|palavras)|não desenhe",
    ),
    Imaged(
        draw="нарисуй(?:те)?|рисуй(?:те)?|изобрази(?:те)?|проиллюстрируй(?:те)?",
        show="покажи(?:те)?",
        not_seen="(?:мне |нам )?,? ?(?:что|почему|сколько|ли)",
        with_images=r"(?:с|в)(?!\s(?:эт|тех)\w{1,3}\s)"
        + _ANY
        + "(?:картинк|изображени|иллюстраци|рисунк|фотографи)"
        r"(?:ой|ами|ах|ями|ях|ем|ей)|(?:картинк|иллюстраци|рисунок|изображени)\w{0,2} (?:к|на|для) "
        r"кажд|комикс (?:про|о|об|из|в|с)",
        without=r"без (?:картин|изображени|иллюстраци|рисун|фото)\w{0,6}|(?:только|одним) текст\w{0,3}|"
        "только слов|не рисуй",
    ),
)
IMAGED_TURKISH = Imaged(
    draw=r"çiz(?:in|iniz|er misin|ebilir misin)?|resmet|resimle|görselleştir",
    show="göster(?:in|ir misin)?",
    not_seen="",
    with_images="resimli|görselli|resimlerle|görsellerle|çizimlerle|çizgi roman",
    without="resimsiz|görselsiz|(?:resim|görsel|çizim) (?:olmadan|kullanmadan|yok|istemiyorum)|çizme|"
    "(?:sadece|yalnızca) (?:metin|yazı|sözle)",
)
"""Its verbs are at the end of a sentence."""
IMAGED_UNSPACED = Imaged(
    draw="画(?!家|展|廊|框|像|中|里|上|風|质)|畫(?!家|展|廊|框|像|中|裡|上|風|質)|绘制|繪製|生成",
    show="展示",
    not_seen="",
    with_images="配图|配圖|插图|插圖|图文|圖文|绘本|繪本|(?:格|的|のコマ)漫[画畫]|用图|用圖|展示。|展示$|"
    "(?:を|で)?描(?:いて|け|く|き)|(?:絵|画像|イラスト|写真|挿絵)(?:で|を(?:作|生成|つけ|付け))|コマ漫画|絵本|"
    "그려|(?:그림|이미지|삽화|사진)(?:으로|를 (?:만들|생성)|과 함께|와 함께)|컷 만화|그림책",
    without="(?:不要|不用|不需要|没有|沒有|无|無|不配|不画|不畫)(?:任何)?(?:图|圖|插|配|画|畫)|(?:只要|只用|仅用|僅用|纯|純)文字|"
    "(?:画像|絵|イラスト|図|写真|挿絵)(?:なし|は不要|を使わ|はいら)|(?:文章|文字|テキスト|言葉)(?:だけ|のみ)|描かない|"
    "(?:그림|이미지|삽화|사진) ?(?:없이|없는|빼고)|(?:글|텍스트|말)(?:로만|만)|그리지 ?마",
)
"""Chinese, Japanese and Korean; `draw` and `show` are at the start of a sentence."""
