"""Names the packages: the repository's root is the package, so that ComfyUI can load a clone of it."""

from setuptools import find_packages, setup

LAYERS = ("backend", "cli", "nodes", "research", "service", "tinyworld", "training", "webapp")

setup(
    script_name="setup.py",  # which is then not packaged itself
    packages=[
        "interleave_thinker",
        *(
            f"interleave_thinker.{name}"
            for name in find_packages(
                include=[f"{layer}*" for layer in LAYERS], exclude=["research.experiments*"]
            )
        ),
    ],
)
