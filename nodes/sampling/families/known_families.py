"""The table of the model families: one entry per family or per member with an edit method of its own.

A model and its edit model often share a class of the host. What the documentation says about a family besides
(files, license, notes) is in `docs/reference_pages/model_families.json`.
"""

from __future__ import annotations

from dataclasses import replace

from .family import ENCODE, NOISE, REFERENCE, EncodeNode, Family, ImageInputs, Recommended, numbered

FLUX = (
    # FLUX.1 dev, Kontext and schnell share a class; only dev and Kontext have a guidance input.
    Family(
        "FLUX.1 Kontext", "flux kontext", ("Flux",), of="a FLUX.1 model", short="Kontext", images=5,
        recommended=(Recommended(20, 1.0),),
    ),
    Family("FLUX.1 dev", NOISE, ("Flux",), recommended=(Recommended(20, 1.0),)),
    Family(
        "FLUX.1 schnell, Ovis-Image", NOISE, ("Flux",), certain=lambda model: not model.distilled_guidance,
        recommended=(Recommended(4, 1.0, variant="schnell"),),
    ),
    Family(
        "FLUX.2 klein, dev", REFERENCE, ("Flux2",), images=9,
        recommended=(
            Recommended(4, 1.0, scheduler="flux2", variant="klein, distilled"),
            Recommended(20, 5.0, scheduler="flux2", variant="klein, base"),
            Recommended(20, 1.0, scheduler="flux2", variant="dev"),
        ),
    ),
    # The node adds the images as reference latents to both conditionings. The pack scales them, since the
    # node would scale each result of a story again.
    Family(
        "FLUX 3 Image Klein", "flux 3 klein",
        row=EncodeNode(
            "ReferenceMultiLatent", numbered("image", 0, 10, "images"), fit="steps if needed",
            latent="own output", mark="<ref_image_{}>", first_mark=0, after_text=True,
            fixed=(("resolution", {"resolution": "keep resolution"}),),
        ),
        recommended=(Recommended(16, 1.0, variant="distilled"), Recommended(50, 4.0, variant="base")),
    ),
    Family(
        "Chroma", NOISE, ("Chroma", "ChromaRadiance"), recommended=(Recommended(26, 3.5, scheduler="beta"),)
    ),
)  # fmt: skip

PLUS = EncodeNode(
    "TextEncodeQwenImageEditPlus", numbered("image", 1, 3), fits_references=False, latent="source",
    mark="Picture {}",
)  # fmt: skip
QWEN_EDIT = Family(
    "Qwen-Image-Edit-2509", "qwen image edit plus", ("QwenImage",), of="a Qwen-Image model",
    row=replace(PLUS, fit="kontext"),
    recommended=(Recommended(20, 4.0), Recommended(4, 1.0, variant="Lightning LoRA of 4 steps")),
)  # fmt: skip
QWEN = (
    # Qwen-Image and its edit models share a class; only the file of 2511 states its reference method.
    replace(QWEN_EDIT, name="Qwen-Image", method=NOISE, row=None),
    replace(
        QWEN_EDIT, name="Qwen-Image-Edit", method="qwen image edit",
        row=EncodeNode("TextEncodeQwenImageEdit", ImageInputs(("image",)), latent="source"),
    ),
    QWEN_EDIT,
    replace(
        QWEN_EDIT, name="Qwen-Image-Edit-2511", method="qwen image edit 2511",
        row=replace(PLUS, fit="kontext", layout="index_timestep_zero"),
        certain=lambda model: model.timestep_zero,
        recommended=(Recommended(40, 3.0), QWEN_EDIT.recommended[1]),
    ),
    # The pack scales the images by the node's own rule, but never twice in a story.
    Family(
        "Qwen-Image-2.1", ENCODE, ("QwenImage21",),
        row=EncodeNode(
            "TextEncodeQwenImage21", numbered("image_", 1, 10, "images"), fit="steps if needed", grid=32,
            negative="own output", latent="own output", mark="<image{}>", fixed=(("resolution", 0),),
            draws_text=True,
        ),
        recommended=(Recommended(25, 1.0),),
    ),
    # Class and node of Qwen-Image-Edit-2509, but the image is scaled to the set area.
    replace(
        QWEN_EDIT, name="FireRed-Image-Edit", method="firered image edit", row=PLUS,
        recommended=(Recommended(40, 4.0), Recommended(8, 1.0, variant="Lightning LoRA of 8 steps")),
    ),
)  # fmt: skip

KREA = (
    Family("Krea 2", NOISE, ("Krea2",), recommended=(Recommended(8, 1.0, variant="Turbo"),)),
    Family(
        "Krea 2 with a reference LoRA", ENCODE, ("Krea2",),
        short="Krea 2 with a LoRA that reads reference images",
        row=EncodeNode(
            "TextEncodeQwenImageEditPlus", numbered("image", 1, 3), fit="as it is", mark="Picture {}",
            layout="index_timestep_zero",
        ),
        recommended=(Recommended(8, 1.0, variant="Turbo"),),
    ),
    # A LoRA with two nodes of its own pack, comfyui-krea2edit.
    Family(
        "Krea 2 Identity Edit", "krea 2 identity edit", ("Krea2",), of="Krea 2 with the Identity Edit LoRA",
        images=2,
        recommended=(
            Recommended(8, 1.0, variant="Turbo"), Recommended(20, 3.0, variant="Raw, to remove things"),
        ),
    ),
)  # fmt: skip

Z_IMAGE = (
    Family(
        "Z-Image, Lumina 2", NOISE, ("Lumina2",), certain=lambda model: not model.image_features,
        recommended=(
            Recommended(8, 1.0, "res_multistep", variant="turbo"),
            Recommended(25, 4.0, "res_multistep", variant="base"),
        ),
    ),
    # The node's own scaling to one megapixel rounds to 8 pixels, but the model's patches need multiples of
    # 16.
    Family(
        "Z-Image Omni", "z-image omni", ("Lumina2",), of="a Z-Image or Lumina 2 model",
        certain=lambda model: model.image_features,
        row=EncodeNode(
            "TextEncodeZImageOmni", numbered("image", 1, 3), scaling="area",
            fixed=(("auto_resize_images", False),),
        ),
    ),
    Family("Ming-Image", NOISE, ("MingImage",)),
    Family(
        "Ming-Image that edits", ENCODE, ("MingImage",), short="a Ming-Image that edits",
        row=EncodeNode("TextEncodeMingImageEdit", numbered("image_", 1, 8, "images"), fit="steps"),
        recommended=(Recommended(12, 1.0),),
    ),
)  # fmt: skip

REFERENCE_IMAGES = EncodeNode(
    "HiDreamO1ReferenceImages", numbered("image_", 1, 10, "images"), fit="as it is", grid=32,
    after_text=True, takes_vae=False,
)  # fmt: skip
EDITING = (
    Family("Boogu-Image", NOISE, ("Boogu",)),
    Family(
        "Boogu-Image-Edit", ENCODE, ("Boogu",),
        row=EncodeNode(
            "TextEncodeBooguEdit", numbered("image_", 1, 16, "images"), fit="as it is", grid=8,
            negative="own output",
        ),
        recommended=(Recommended(25, 3.5, "dpmpp_2m"),),
    ),
    # One node encodes both prompts and the images, and returns the latent.
    Family(
        "FIBO 2", "fibo 2",
        row=EncodeNode(
            "TextEncodeFibo2", numbered("image_", 1, 16, "images"), fit="as it is", negative="own output",
            latent="own output", mark="<image_{}>", fixed=(("batch_size", 1),), draws_text=True, sized=True,
        ),
        recommended=(Recommended(50, 5.0, variant="dev"), Recommended(4, 1.0, variant="edit turbo")),
    ),
    # Works on pixels, like SenseNova, which shares its node for reference images.
    Family(
        "HiDream-O1", ENCODE, ("HiDreamO1",), row=REFERENCE_IMAGES,
        recommended=(Recommended(40, 5.0, "dpmpp_2m_sde_gpu", "normal"),),
    ),
    Family("SenseNova U1.5, U1.6", ENCODE, ("SenseNovaU15",), row=REFERENCE_IMAGES),
    Family(
        "JoyAI-Image-Edit", ENCODE, ("JoyImage",),
        row=EncodeNode(
            "TextEncodeJoyImageEdit", numbered("image", 0, 6, "images"), fit="steps",
            scaling="nearest-exact",
        ),
        recommended=(Recommended(40, 4.0, scheduler="normal"),),
    ),
    Family("LongCat-Image", NOISE, ("LongCatImage",)),
    Family(
        "LongCat-Image-Edit", ENCODE, ("LongCatImage",),
        row=EncodeNode(
            "TextEncodeQwenImageEdit", ImageInputs(("image",)), fit="steps", latent="source", layout="index"
        ),
        recommended=(Recommended(50, 4.5),),
    ),
    Family("Mage-Flow", NOISE, ("MageFlow",)),
    Family(
        "Mage-Flow-Edit", ENCODE, ("MageFlow",),
        row=EncodeNode(
            "TextEncodeMageFlowEdit", numbered("image_", 1, 16, "images"), fit="steps",
            fits_references=False, negative="own output", latent="own output", mark="Image {}",
            draws_text=True, sized=True,
        ),
        recommended=(Recommended(30, 5.0),),
    ),
    # The images reach the model as reference latents only.
    Family(
        "MOSS-Image with its edit LoRA", "moss image edit",
        row=EncodeNode(
            "TextEncodeMOSSImageEdit", numbered("image_", 0, 9, "images"), fit="steps",
            fixed=(("edit_format", "Moss-Image-Edit"), ("image_strength", 1.0)),
        ),
        recommended=(
            Recommended(30, 4.0, scheduler="normal"),
            Recommended(25, 2.5, "er_sde", variant="text to image without the LoRA"),
        ),
    ),
    # References on two conditionings, separate guidance for text and images.
    Family("OmniGen2", "omnigen2", ("Omnigen2",), images=5, recommended=(Recommended(20, 5.0),)),
    # Edits single frames with the class of the WAN video models, so `auto` cannot tell it.
    Family(
        "Bernini-R", "bernini-r", ("WAN21",), guess=False,
        row=EncodeNode(
            "BerniniConditioning", numbered("reference_image_", 0, 8, "reference_images"),
            source="source_video", fit="as it is", negative="own output", latent="own output",
            fixed=(("length", 1), ("batch_size", 1)), sized=True, after_text=True,
        ),
        recommended=(
            Recommended(40, 5.0, "res_multistep"),
            Recommended(6, 1.0, "res_multistep", variant="lightx2v LoRA"),
        ),
    ),
    Family(
        "MiniMax-H3-Image", "minimax h3 image", may_be=("MiniMaxH3",), vae_is_checked=False,
        row=EncodeNode(
            "MiniMaxH3ImageConditioning", numbered("image_", 1, 16, "images"), fit="as it is", grid=32,
            latent="own output", mark="<Picture {}>", draws_text=True, sized=True,
        ),
        recommended=(Recommended(6, 1.0),),
    ),
    # Its latent also has audio parts, which the Step Generator cannot sample.
    Family("p-h3-image", None, images=9),
)  # fmt: skip

FROM_TEXT = (
    Family(
        "Stable Diffusion 1.5, 2, SDXL", NOISE, ("BaseModel", "SDXL", "SDXLRefiner"),
        recommended=(Recommended(25, 7.0, "dpmpp_2m", "karras", "SDXL"),),
    ),
    Family(
        "Stable Diffusion 3", NOISE, ("SD3",), recommended=(Recommended(20, 4.01, scheduler="sgm_uniform"),)
    ),
    Family("ERNIE-Image", NOISE, ("ErnieImage",), recommended=(Recommended(20, 4.0),)),
    Family("Ideogram 4", NOISE, ("Ideogram4",)),
    Family("AuraFlow", NOISE, ("AuraFlow",)),
    Family("PixArt", NOISE, ("PixArt",)),
    Family("HunyuanDiT", NOISE, ("HunyuanDiT",)),
    Family("HunyuanImage 2.1", NOISE, ("HunyuanImage21",)),
    Family("Kandinsky 5 Image", NOISE, ("Kandinsky5Image",), recommended=(Recommended(50, 3.5),)),
    Family("Anima", NOISE, ("Anima",), recommended=(Recommended(30, 4.0),)),
    Family("Lens", NOISE, ("Lens",), recommended=(Recommended(20, 5.0),)),
    Family("PixelDiT", NOISE, ("PixelDiTT2I",), recommended=(Recommended(30, 4.0, "er_sde"),)),
)  # fmt: skip

FAMILIES = tuple(
    sorted((*FLUX, *QWEN, *KREA, *Z_IMAGE, *EDITING, *FROM_TEXT), key=lambda family: family.name.casefold())
)
"""All families, ordered by name."""
