from typing import Any

from comfy_api.latest import io

class TextEncodeQwenImageEdit:
    @classmethod
    def execute(cls, clip: Any, prompt: str, vae: Any = None, image: Any = None) -> io.NodeOutput: ...

class TextEncodeQwenImageEditPlus:
    @classmethod
    def execute(
        cls,
        clip: Any,
        prompt: str,
        vae: Any = None,
        image1: Any = None,
        image2: Any = None,
        image3: Any = None,
    ) -> io.NodeOutput: ...
