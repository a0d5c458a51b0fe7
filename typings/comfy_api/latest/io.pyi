from enum import Enum
from typing import Any

class Input:
    def __init__(self, id: str, **options: Any) -> None: ...

class Output:
    def __init__(self, id: str | None = None, **options: Any) -> None: ...

class ComfyType:
    class Input(Input): ...
    class Output(Output): ...

def Custom(io_type: str) -> type[ComfyType]: ...

class AnyType(ComfyType): ...
class Boolean(ComfyType): ...
class Clip(ComfyType): ...
class Combo(ComfyType): ...
class Float(ComfyType): ...
class Image(ComfyType): ...
class Int(ComfyType): ...
class Model(ComfyType): ...
class String(ComfyType): ...
class Vae(ComfyType): ...

class Autogrow:
    class TemplatePrefix:
        def __init__(self, input: Input, prefix: str, min: int = 1, max: int = 10) -> None: ...

    class TemplateNames:
        def __init__(self, input: Input, names: list[str], min: int = 1) -> None: ...

    class Input(Input): ...

class ControlAfterGenerate(Enum):
    fixed = "fixed"
    increment = "increment"
    decrement = "decrement"
    randomize = "randomize"

class Hidden(Enum):
    unique_id = "UNIQUE_ID"
    prompt = "PROMPT"
    extra_pnginfo = "EXTRA_PNGINFO"
    dynprompt = "DYNPROMPT"

class HiddenHolder:
    unique_id: str
    prompt: Any
    extra_pnginfo: Any
    dynprompt: Any

class Schema:
    def __init__(
        self,
        node_id: str,
        display_name: str | None = None,
        category: str = "",
        inputs: list[Any] | None = None,
        outputs: list[Any] | None = None,
        hidden: list[Hidden] | None = None,
        description: str = "",
        search_aliases: list[str] | None = None,
        **options: Any,
    ) -> None: ...

class NodeOutput:
    args: tuple[Any, ...]
    def __init__(
        self, *args: Any, ui: dict[str, Any] | None = None, expand: dict[str, Any] | None = None
    ) -> None: ...

class ComfyNode:
    hidden: HiddenHolder
    @classmethod
    def define_schema(cls) -> Schema: ...
