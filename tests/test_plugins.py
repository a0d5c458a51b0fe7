"""The plug-in packages of the documents work by name; a broken one breaks only its own name.

It is used from the command line, Python and the Export node's list.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import plugin_package
from support.cli_calls import call
from support.stories import make_trajectory

from interleave_thinker import (
    InterleaveError,
    JournalError,
    Picture,
    Pipeline,
    Score,
    ScorerError,
    SettingsError,
    export_by_name,
    open_generator,
    open_scorer,
)
from interleave_thinker.backend.core.machine.registry import Registry
from interleave_thinker.backend.models.chat import CHAT_BACKENDS
from interleave_thinker.backend.models.generators import GENERATORS
from interleave_thinker.backend.models.scorers import SCORERS
from interleave_thinker.backend.output.exporters import EXPORTERS
from interleave_thinker.research.benchmarks import BENCHMARKS

ROOT = Path(__file__).resolve().parents[1]
REGISTRIES = (GENERATORS, CHAT_BACKENDS, SCORERS, EXPORTERS, BENCHMARKS)

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package like pip: its modules and its .dist-info in a folder of sys.path."""
    site = tmp_path / "site-packages"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def installed(name: str, entry_points: str, **modules: str) -> Path:
        plugin_package.install(site, name, entry_points, **modules)
        for module in modules:
            monkeypatch.delitem(sys.modules, module, raising=False)
        importlib.invalidate_caches()
        return site

    return installed


@pytest.fixture
def stripes(install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder with the document's package installed."""
    plugin_package.install_documented(tmp_path / "site-packages", "pyproject.toml", "interleave_stripes")
    monkeypatch.delitem(sys.modules, "interleave_stripes", raising=False)
    importlib.invalidate_caches()
    return tmp_path / "site-packages"


def test_run_and_export_on_the_command_line(stripes: Path, tmp_path: Path) -> None:
    out = tmp_path / "striped"
    request = "Draw a sea page with a red boat in the middle."
    done = call("run", request, "--critic", "none", "--generator", "stripes:96", "--out", out)
    assert done.exit_code == 0, done.output
    done = call("export", out, "--to", "captions", "--title", "Boats")
    assert done.exit_code == 0, done.output
    assert (out / "captions.txt").read_text(encoding="utf-8").splitlines()[0] == "Boats"
    done = call("export", out, "--to", "captions", "--audience")
    assert done.exit_code == 2 and "'captions' does not support --audience" in done.output


def test_help_and_errors_name_them(stripes: Path) -> None:
    assert "stripes" in words(call("run", "x", "--generator", "none-such").output)
    done = call(
        "run", "Draw a sea page.", "--critic", "none", "--generator", "stripe", "--out", stripes / "x"
    )
    assert done.exit_code == 2 and re.search(r"Known: .*tinyworld.* stripes ", words(done.output))
    done = call("export", stripes, "--to", "caption")
    assert done.exit_code == 2 and "zip, captions." in words(done.output)


def words(output: str) -> str:
    """Return a terminal's output in one line."""
    return " ".join(output.replace("│", " ").split())


def test_from_python(stripes: Path) -> None:
    story = Pipeline(generator="stripes", critic=None, size="32")("Draw a sea page with a red boat.")
    assert [image.size for image in story.images] == [(32, 32)]
    assert story.export("captions", stripes / "out").name == "captions.txt"
    with pytest.raises(SettingsError, match="does not accept the option 'steps'"):
        open_generator("stripes", steps=3)


def test_the_documented_scorer_reads_a_reward_models_numbers(install: Install, tmp_path: Path) -> None:
    plugin_package.install_documented(tmp_path / "site-packages", "scorer.toml", "interleave_reward")
    importlib.invalidate_caches()
    replies = ['{"reasoning": "It fits.", "score": [20, 25]}', '"score": [1, 2] or "score": [2, 3]']
    (tmp_path / "replies.json").write_text(json.dumps(replies), encoding="utf-8")
    scorer = open_scorer(f"reward25:scripted:{tmp_path / 'replies.json'}")
    image = Picture.white((8, 8))
    assert scorer.score(None, image, "add {a} boat") == Score(semantics=8, quality=10)
    with pytest.raises(ScorerError, match="2 scores instead of one"):
        scorer.score(image, image, "add a boat")


def test_nothing_is_imported_until_a_name_is_used(stripes: Path) -> None:
    assert GENERATORS.names == [*GENERATORS.built_in, "stripes"]
    assert EXPORTERS.plugins == ["captions"]
    assert "interleave_stripes" not in sys.modules
    open_generator("stripes:8")
    assert "interleave_stripes" in sys.modules


def test_a_built_in_name_asks_no_package(stripes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise AssertionError("packages were listed")

    monkeypatch.setattr("interleave_thinker.backend.core.machine.registry.distributions", refuse)
    assert open_generator("fake").draw("a", None, 0).size == (64, 64)
    assert export_by_name("markdown", make_trajectory(), stripes / "markdown").is_file()


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda one: one.kind)
def test_every_registry_finds_plugins_and_keeps_its_own_names(registry: Registry, install: Install) -> None:
    own = next(iter(registry.built_in))
    entries = f"[{registry.group}]\nmine = some_plugin\n{own} = some_plugin\nnamed = some_plugin:other\n"
    install("some-package", entries, some_plugin=f"{registry.attribute} = 'mine'\nother = 'other'\n")
    assert registry.plugins == ["mine", "named"]
    assert registry.names == [*registry.built_in, "mine", "named"]
    assert (registry.load("mine"), registry.load("named")) == ("mine", "other")
    assert registry.load(own) not in ("mine", "other")
    with pytest.raises(SettingsError, match="named") as error:
        registry.load("yours")
    assert f"Unknown {registry.kind} 'yours'" in str(error.value)


def test_benchmark_command_lists_them(install: Install) -> None:
    entries = "[interleave_thinker.benchmarks]\nmine = some_plugin\nwise = some_plugin\n"
    site = install("some-package", entries, some_plugin="raise RuntimeError")
    code = (
        "import sys; sys.path[:0] = sys.argv[1:3]; del sys.argv[1:3]; import conftest\n"
        "from interleave_thinker.cli import main; main()"
    )
    line = [sys.executable, "-c", code, str(ROOT / "tests"), str(site), "benchmark", "--help"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "Run a benchmark of an installed plug-in." in words(done.stdout)
    assert len(re.findall(r"\bWISE \(Verified\)", words(done.stdout))) == 1


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("import no_such_library", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("raise RuntimeError('too old')", "RuntimeError: too old"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("def open(:", "SyntaxError"),
        ("", "has no attribute 'open'"),
    ],
)
def test_a_broken_plugin_raises_only_under_its_own_name(module: str, reason: str, install: Install) -> None:
    install("broken-package", "[interleave_thinker.generators]\nbroken = broken_one\n", broken_one=module)
    install("sound-package", "[interleave_thinker.generators]\nsound = sound_one\n", sound_one="open = len")
    assert GENERATORS.plugins == ["broken", "sound"]
    with pytest.raises(SettingsError) as error:
        open_generator("broken:1")
    assert "Cannot load the plug-in 'broken' of the package broken-package: " in str(error.value)
    assert reason in str(error.value) and "pip uninstall broken-package" in str(error.value)
    assert GENERATORS.open("sound:123") == 3


def test_damaged_metadata_is_named_and_hides_no_other_plugin(install: Install) -> None:
    install("damaged-package", "[interleave_thinker.generators]\nno equals sign\n")
    install("sound-package", "[interleave_thinker.generators]\nsound = sound_one\n", sound_one="open = len")
    assert GENERATORS.plugins == ["sound"]
    with pytest.raises(SettingsError, match="damaged-package"):
        open_generator("no")


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("open = 5", "5 is not a callable object"),
        ("open = dict", "no signature found"),
        ("def open(): pass", "too many positional arguments"),
        ("def open(argument, size): pass", "missing a required argument: 'size'"),
    ],
)
def test_an_open_that_cannot_be_called_is_named(module: str, reason: str, install: Install) -> None:
    install("odd-package", "[interleave_thinker.generators]\nodd = odd_one\n", odd_one=module)
    with pytest.raises(SettingsError, match=f"the generator 'odd': {reason}"):
        open_generator("odd:1")


def test_options_of_an_export_and_a_full_disk(install: Install, tmp_path: Path) -> None:
    module = (
        "def full(story, place): raise OSError(28, 'No space left')\n"
        "def every(story, place, **options): return place / options['any']\n"
    )
    entries = "full = full_one:full\nevery = full_one:every\nnone = full_one:__name__\n"
    install("some-package", f"[interleave_thinker.exporters]\n{entries}", full_one=module)
    trajectory = make_trajectory()
    with pytest.raises(JournalError, match=r"Export 'full' .*No space left.*temporary"):
        export_by_name("full", trajectory, tmp_path)
    assert export_by_name("every", trajectory, tmp_path, any="name") == tmp_path / "name"
    with pytest.raises(SettingsError, match=r"the export 'none': .* not a callable"):
        export_by_name("none", trajectory, tmp_path)
    for name, known in (("full", "none"), ("page", "audience, language, title")):
        with pytest.raises(SettingsError, match=f"accept the option 'options'. Known options: {known}"):
            export_by_name(name, trajectory, tmp_path, options=1)


def test_a_name_of_two_packages_is_rejected(install: Install) -> None:
    for name in ("first-package", "second-package"):
        install(name, "[interleave_thinker.generators]\nsame = sound_one\n", sound_one="open = len")
    assert GENERATORS.plugins == ["same"]
    with pytest.raises(InterleaveError, match=r"in several packages: (first|second)-package, "):
        open_generator("same")


def test_under_the_hosts_name_a_plugin_imports_the_copy_that_runs(stripes: Path, tmp_path: Path) -> None:
    name = str(tmp_path / "custom nodes" / "pack").replace(".", "_x_")
    code = (
        "import importlib, importlib.util, sys\n"
        f"name, root = {name!r}, {str(ROOT)!r}; sys.path.insert(0, {str(stripes)!r})\n"
        "spec = importlib.util.spec_from_file_location(name, root + '/__init__.py', "
        "submodule_search_locations=[root])\n"
        "package = importlib.util.module_from_spec(spec); sys.modules[name] = package; "
        "spec.loader.exec_module(package)\n"
        "generators = importlib.import_module(f'{name}.backend.models.generators')\n"
        "pictures = importlib.import_module(f'{name}.backend.core.pictures')\n"
        "image = generators.open_generator('stripes:16').draw('x', None, 0)\n"
        "import interleave_thinker.backend.core.pictures as same\n"
        "print(type(image) is pictures.Picture, same is pictures, same.__name__ == pictures.__name__)\n"
        "print([one for one in sys.modules if one.startswith('interleave_thinker') and "
        "sys.modules[one].__name__ == one])\n"
    )
    line = [sys.executable, "-c", code]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines() == ["True True True", "[]"], done.stderr
