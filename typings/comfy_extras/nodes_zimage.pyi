from typing import Any

from comfy_api.latest import io

class TextEncodeZImageOmni:
    @classmethod
    def execute(
        cls,
        clip: Any,
        prompt: str,
        image_encoder: Any = None,
        auto_resize_images: bool = True,
        vae: Any = None,
        image1: Any = None,
        image2: Any = None,
        image3: Any = None,
    ) -> io.NodeOutput: ...
