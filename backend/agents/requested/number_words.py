"""Number words of requests in eleven languages, units of steps and images, and words around them.

count.py builds its patterns from these tables. They are the languages of the host, and German. A table
is a text of words with spaces between them. Forms of the same word are separated by slashes. `*` is any
ending of up to six letters, `_` for a space within a phrase.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Spaced:
    """A language that is written with spaces between words.

    Attributes:
        numbers: The numbers from 1 to 20.
        tens: 30, 40 and so on up to 90.
        steps: Units that count steps.
        images: Units that count images.
        leads: Words directly before a number that say that it counts the steps: "in 4 steps".
        makers: Verbs that ask for images: "draw 4 pictures".
        to_whom: Words that may be between such a verb and its number.
        genres: Works that are made of steps: "a comic with 6 panels".
        made_of: Words between such a work and its number.
        between: Words between the two numbers of a range.
        not_adjectives: Words that are never between a number and its unit.
        each: Words that make a number count something for every step.
        endings: Endings of a unit that say the same as `leads`.
        makers_after: Verbs that follow their object.
    """

    numbers: str
    tens: str
    steps: str
    images: str
    leads: str
    makers: str
    to_whom: str
    genres: str
    made_of: str
    between: str
    not_adjectives: str
    each: str
    endings: str = ""
    makers_after: str = ""


ENGLISH = Spaced(
    numbers="one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen "
    "seventeen eighteen nineteen twenty",
    tens="thirty forty fifty sixty seventy eighty ninety",
    steps="step/steps stage/stages panel/panels page/pages scene/scenes frame/frames slide/slides shot/shots",
    images="picture/pictures image/images illustration/illustrations drawing/drawings photo/photos "
    "photograph/photographs painting/paintings sketch/sketches",
    leads="in into exactly precisely",
    makers="draw paint sketch illustrate create generate make produce render show give",
    to_whom="me us please exactly just only a_series_of a_set_of a_sequence_of",
    genres="comic/comics comic_strip comic_book story tale strip manga storyboard guide recipe "
    "tutorial "
    "how-to slideshow series sequence picture_book lesson instructions fable",
    made_of="with of in",
    between="to or",
    not_adjectives="of the a an and or in on at to from with by for is are has have had as that "
    "this these "
    "those my your his her its our their into no than",
    each="each every per apiece",
)
GERMAN = Spaced(
    numbers="ein_einziges/eine_einzige zwei drei vier fünf/fuenf sechs sieben acht neun zehn elf "
    "zwölf/zwoelf "
    "dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn zwanzig",
    tens="dreißig/dreissig vierzig fünfzig sechzig siebzig achtzig neunzig",
    steps="schritt* etappe* szene* seite* panel* stufe*",
    images="bild/bilder/bildern/bildes zeichnung* illustration* foto/fotos skizze* gemälde*",
    leads="in genau exakt",
    makers="zeichne zeichnet male malt mal erstelle erzeuge generiere mach mache zeig zeige illustriere",
    to_whom="mir uns bitte genau nur",
    genres="comic bildergeschichte geschichte märchen anleitung rezept bilderbuch serie fotostrecke strip",
    made_of="mit aus in von",
    between="bis oder",
    not_adjectives="von der die das den dem und oder in im an am auf aus mit zu zur zum für ist sind als vom",
    each="jede/jeder/jedes/jedem/jeden jeweils je pro",
)
FRENCH = Spaced(
    numbers="une_seule/un_seul deux trois quatre cinq six sept huit neuf dix onze douze treize "
    "quatorze quinze "
    "seize dix-sept dix-huit dix-neuf vingt",
    tens="trente quarante cinquante soixante soixante-dix quatre-vingts quatre-vingt-dix",
    steps="étape/étapes etape/etapes page/pages scène/scènes scene/scenes case/cases "
    "planche/planches plan/plans",
    images="image/images dessin/dessins vignette/vignettes illustration/illustrations photo/photos "
    "tableau/tableaux",
    leads="en exactement précisément",
    makers="dessine dessinez crée créez génère générez fais faites peins montre montrez illustre illustrez",
    to_whom="moi nous -moi -nous exactement",
    genres="bd bande_dessinée comic histoire conte récit recette guide tutoriel série album planche "
    "mode_d'emploi",
    made_of="en de avec",
    between="à ou",
    not_adjectives="de des du la le les et ou en à au aux sur dans avec pour par est sont que qui un une",
    each="chaque chacun/chacune par",
)
SPANISH = Spaced(
    numbers="una_sola/un_solo/una_única/un_único dos tres cuatro cinco seis siete ocho nueve diez "
    "once doce "
    "trece catorce quince dieciséis/dieciseis diecisiete dieciocho diecinueve veinte",
    tens="treinta cuarenta cincuenta sesenta setenta ochenta noventa",
    steps="paso/pasos etapa/etapas escena/escenas página/páginas pagina/paginas viñeta/viñetas "
    "panel/paneles "
    "fotograma/fotogramas",
    images="imagen/imágenes/imagenes dibujo/dibujos ilustración/ilustraciones ilustracion foto/fotos "
    "fotografía/fotografías cuadro/cuadros lámina/láminas",
    leads="en exactamente",
    makers="dibuja dibújame dibuje crea genera haz pinta ilustra muestra muéstrame",
    to_whom="me nos exactamente por_favor solo",
    genres="cómic comic historieta cuento historia relato receta guía tutorial serie tira fábula",
    made_of="de con en",
    between="a o",
    not_adjectives="de del la el las los y o en a al con para por es son que un una",
    each="cada por",
)
PORTUGUESE = Spaced(
    numbers="uma_única/um_único/uma_só/um_só dois/duas três/tres quatro cinco seis sete oito nove "
    "dez onze doze "
    "treze catorze/quatorze quinze dezesseis dezessete dezoito dezenove vinte",
    tens="trinta quarenta cinquenta sessenta setenta oitenta noventa",
    steps="passo/passos etapa/etapas cena/cenas página/páginas pagina/paginas quadro/quadros "
    "painel/painéis "
    "quadrinho/quadrinhos slide/slides",
    images="imagem/imagens desenho/desenhos ilustração/ilustrações foto/fotos fotografia/fotografias "
    "figura/figuras",
    leads="em exatamente",
    makers="desenhe desenha crie cria gere gera faça faz pinte ilustre mostre mostra",
    to_whom="me nos exatamente por_favor só",
    genres="hq quadrinhos história_em_quadrinhos tirinha história historia conto receita guia "
    "tutorial série "
    "fábula",
    made_of="de com em",
    between="a ou",
    not_adjectives="de do da dos das o a os as e ou em no na com para por é são que um uma",
    each="cada por",
)
RUSSIAN = Spaced(
    numbers="один/одна/одну/одной/одном/одного два/две/двух/двумя три/трех/трёх/тремя "
    "четыре/четырех/четырёх/четырьмя пять/пяти шесть/шести семь/семи восемь/восьми девять/девяти "
    "десять/десяти одиннадцать/одиннадцати двенадцать/двенадцати тринадцать/тринадцати "
    "четырнадцать/четырнадцати пятнадцать/пятнадцати шестнадцать/шестнадцати семнадцать/семнадцати "
    "восемнадцать/восемнадцати девятнадцать/девятнадцати двадцать/двадцати",
    tens="тридцать/тридцати сорок/сорока пятьдесят/пятидесяти шестьдесят/шестидесяти "
    "семьдесят/семидесяти "
    "восемьдесят/восьмидесяти девяносто/девяноста",
    steps="шаг/шага/шагов/шагах/шагами этап/этапа/этапов/этапах сцена/сцены/сцен/сценах "
    "страница/страницы/страниц/страницах кадр/кадра/кадров/кадрах панель/панели/панелей/панелях "
    "слайд/слайда/слайдов/слайдах",
    images="картинка/картинки/картинку/картинок/картинках "
    "изображение/изображения/изображений/изображениях "
    "рисунок/рисунка/рисунков/рисунках иллюстрация/иллюстрации/иллюстраций/иллюстрациях "
    "картина/картины/картин/картинах фото фотография/фотографии/фотографий/фотографиях",
    leads="в за из ровно",
    makers="нарисуй нарисуйте рисуй создай создайте сгенерируй сделай сделайте покажи покажите изобрази",
    to_whom="мне нам ровно пожалуйста",
    genres="комикс история историю рассказ сказка сказку рецепт инструкция инструкцию серия серию",
    made_of="из в с на",
    between="до или",
    not_adjectives="из в на с и или от для к по не это эти",
    each="каждый/каждая/каждое/каждой/каждом/каждого/каждую/каждому",
)
TURKISH = Spaced(
    numbers="tek_bir/tek iki üç dört beş altı yedi sekiz dokuz on on_bir on_iki on_üç on_dört "
    "on_beş on_altı "
    "on_yedi on_sekiz on_dokuz yirmi",
    tens="otuz kırk elli altmış yetmiş seksen doksan",
    steps="adım* aşama* sahne* sayfa* kare* panel* slayt*",
    images="resim/resimde/resimle/resimli/resimlik görsel* çizim* fotoğraf* illüstrasyon*",
    leads="tam",
    makers="",
    to_whom="",
    genres="",
    made_of="",
    between="ila veya",
    not_adjectives="ve ile bir bu şu o için",
    each="her",
    endings="da de ta te la le lık lik luk lük lı li lu lü",
    makers_after="çiz* göster* oluştur* yap* üret* hazırla*",
)
SPACED = (ENGLISH, GERMAN, FRENCH, SPANISH, PORTUGUESE, RUSSIAN, TURKISH)

HAN = {sign: number for number, sign in enumerate("零一二三四五六七八九")} | {"两": 2, "兩": 2}
"""Chinese and Japanese digits; 十 and 百 are multipliers."""
HAN_COUNTERS = "个個つ"
HAN_UNITS = (
    "步|歩|张|張|幅|页|頁|格|枚|ステップ|コマ|ページ|段階|"
    "场景|場景|场|場面|場|画面|畫面|分镜|分鏡|镜头|鏡頭|シーン"
)
HAN_IMAGES = (
    "图|圖|画|畫|照片|插|漫画|漫畫|图片|圖片|绘|繪|"
    "の絵|の画像|のイラスト|の漫画|のマンガ|の写真|の挿絵|漫画|マンガ"
)
"""What follows a unit that counts images."""
HAN_LEADS = "用|分成|分|共|一共|以|恰好|恰|配|全|全部で|計"
HAN_MAKERS = "画|畫|绘制|繪製|生成|创作|創作|制作|製作|做|展示"
HAN_NOT_COUNTED = "每|第|下|上|这|這|那|进|進|各|其|此|この|その|毎|走|退|前"
"""Characters directly before a number that make it mean something else."""
HAN_AFTER = "で|に分け|にわけ|を描|描|展示|讲|講|教|说明|說明|完成|画完"
"""What follows a unit if the number says how to do something."""

KOREAN_NUMBERS = (
    "한 두 세/석 네/넉 다섯 여섯 일곱 여덟 아홉 열 "
    "열한 열두 열세 열네 열다섯 열여섯 열일곱 열여덟 열아홉 스무"
)
KOREAN_SINO = (
    "삼=3 사=4 오=5 육=6 칠=7 팔=8 구=9 십=10 십이=12 십오=15 이십=20 삼십=30 사십=40 오십=50 육십=60"
)
"""Numbers of Chinese origin; 일 (1) and 이 (2) are left out, since 이 also means "this"."""
KOREAN_UNITS = "단계|장면|장|컷|페이지|쪽|스텝|칸|패널|그림|이미지|사진"
KOREAN_AFTER = (
    "(?:으)?로|의\\s?(?:그림|이미지|사진|만화|일러스트|삽화)|짜리|"
    "\\s?만화|\\s?(?:을|를)?\\s?(?:그려|그리|만들|생성)"
)
KOREAN_BEFORE = "그림|이미지|사진|삽화|만화|총|모두|정확히|딱"
KOREAN_NOT_COUNTED = "이|그|저|각|매|제|첫|다음"
