"""The heavy-import guard: no way round it, with the heavy module loaded before or not; and no trace of it afterwards."""

from __future__ import annotations

import builtins
import importlib
import sys
import threading

import pytest

from core_rl.plugins.catalogue import Catalogue
from core_rl.plugins.guard import HeavyImportError, heavy_import_guard

HOOK = """
from core_rl import hookimpl
@hookimpl
def core_rl_losses():
    {body}
    return []
"""
FORMS = {
    "statement": "import sglang",
    "submodule": "import sglang.ops as ops",
    "from_package": "from sglang import ops",
    "from_submodule": "from sglang.ops import fused",
    "import_module": "import importlib; importlib.import_module('sglang.ops')",
    "bound_import_module": "from importlib import import_module; import_module('sglang')",
    "dunder_import": "__import__('sglang')",
    "optional": "try:\n    import sglang\nexcept ImportError:\n    sglang = None",
    "swallowed": "try:\n    import sglang\nexcept:\n    sglang = None",
    "swallowed_by_name": "import importlib\ntry:\n    importlib.import_module('sglang')\nexcept BaseException:\n    pass",
    "through_a_library": "import somelibrary",
}


@pytest.fixture
def heavy(site):
    """A stand-in for a heavy package that this environment does not have, and a library that imports it."""
    site.module("sglang.__init__", "")
    site.module("sglang.ops", "fused = 1")
    site.module("somelibrary", "try:\n    import sglang\n    HAS = True\nexcept:\n    HAS = False")
    return site


@pytest.mark.parametrize("loaded", [False, True], ids=["fresh", "loaded_before"])
@pytest.mark.parametrize("place", ["import", "hook"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_import_is_refused(heavy, form: str, place: str, loaded: bool) -> None:
    """A heavy import at listing breaks the plugin, in every form, whether the process has the module already or not."""
    if loaded:
        importlib.import_module("sglang.ops")
    body = FORMS[form]
    code = body + HOOK.format(body="pass") if place == "import" else HOOK.format(body=body.replace("\n", "\n    "))
    heavy.add("bad-heavy", code)

    reasons = {row.plugin: row.reason for row in Catalogue.discover().broken}

    assert reasons["bad-heavy"].startswith("imports sglang")
    assert "when plugins are listed" in reasons["bad-heavy"]
    assert ("sglang" in sys.modules) == loaded


def test_the_refusal_repeats(heavy) -> None:
    """A second discovery in the same process gives the same answer."""
    heavy.add("bad-heavy", FORMS["from_submodule"] + HOOK.format(body="pass"))

    first, second = ([row.reason for row in Catalogue.discover().broken if row.plugin == "bad-heavy"] for _ in range(2))

    assert first == second
    assert len(first) == 1


def test_a_library_is_not_left_half_made(heavy) -> None:
    """A library that swallowed the refusal is imported anew by the next one who asks, now with its backend."""
    heavy.add("bad-heavy", FORMS["through_a_library"] + HOOK.format(body="pass"))
    Catalogue.discover()

    library = importlib.import_module("somelibrary")

    assert library.HAS


def test_asking_whether_a_backend_is_there_is_allowed(heavy) -> None:
    """`importlib.util.find_spec` imports nothing, and answers truly."""
    code = "import importlib.util\nHAS = [importlib.util.find_spec(n) is not None for n in ('sglang', 'no_such_module')]"
    heavy.add("asks-only", code + HOOK.format(body="pass"))

    catalogue = Catalogue.discover()

    assert [plugin.module.HAS for plugin in catalogue.plugins if plugin.distribution == "asks-only"] == [[True, False]]


def test_other_threads_import_what_they_like(heavy) -> None:
    """The guard speaks to its own thread only."""
    heard: list[object] = []

    def work() -> None:
        import sglang.ops

        heard.append(sglang.ops.fused)

    with heavy_import_guard():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    assert heard == [1]


def test_nothing_stays_behind(heavy) -> None:
    """After the block imports are as before, and a guarded function that somebody kept lets everything through."""
    before = (builtins.__import__, importlib.import_module, list(sys.meta_path))
    with heavy_import_guard() as attempts:
        kept = importlib.import_module
        with pytest.raises(HeavyImportError):
            kept("sglang")

    after = (builtins.__import__, importlib.import_module, list(sys.meta_path))
    assert after == before
    assert attempts.modules == ["sglang"]
    assert kept("sglang").__name__ == "sglang"


def test_the_finder_alone_refuses(heavy) -> None:
    """An import that goes round both functions, as C code's does, meets the finder."""
    with heavy_import_guard() as attempts, pytest.raises(HeavyImportError):
        importlib._bootstrap._gcd_import("sglang")

    assert attempts.modules == ["sglang"]
