import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from venus_env.plugins import load_object

MODULE = """
import functools, json
from pathlib import Path
class Tool:
    name = "lookup"
    class Inner:
        pass
    async def __call__(self, arguments): ...
class Needy:
    def __init__(self, corpus): ...
tool = Tool()
def make(): return ["made"]
partial = functools.partial(dict, a=1)
def broken(): raise RuntimeError("no server\\nthere")
async def later(): ...
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A working directory with modules of a user's own, which is not on ``sys.path``."""
    (tmp_path / "mine_.py").write_text(MODULE)
    (tmp_path / "syntax_.py").write_text("def")
    (tmp_path / "raises_.py").write_text("raise OSError('no disk')")
    (tmp_path / "lacks_.py").write_text("import not_installed_anywhere")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    yield
    for name in ("mine_", "syntax_", "raises_", "lacks_"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("spec", "kind"),
    [("mine_:tool", "Tool"), ("mine_:Tool", "Tool"), ("mine_:Tool.Inner", "Inner"), ("mine_:tool.name", "str")],
)
def test_objects_stay_and_classes_are_called(spec: str, kind: str) -> None:
    assert type(load_object(spec, "tool")).__name__ == kind


@pytest.mark.parametrize(("spec", "made"), [("mine_:make", ["made"]), ("mine_:partial", {"a": 1})])
def test_factories_are_called(spec: str, made: Any) -> None:
    assert load_object(spec, "tool") == made


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mine_", r"tool 'mine_': expected module:attribute"),
        (":tool", r"expected module:attribute"),
        ("mine_:", r"expected module:attribute"),
        (".mine_:tool", r"expected module:attribute"),
        ("nowhere_:tool", r"no module 'nowhere_', neither installed nor in .*without \.py"),
        ("mine_.py:tool", r"no module 'mine_\.py'"),
        ("lacks_:tool", r"importing 'lacks_' failed: No module named 'not_installed_anywhere'; install it"),
        ("syntax_:tool", r"importing 'syntax_' failed: SyntaxError"),
        ("raises_:tool", r"importing 'raises_' failed: OSError: no disk"),
        ("mine_:tol", r"module 'mine_' has no attribute 'tol'; did you mean 'tool'\?"),
        (
            "mine_:xyz",
            r"module 'mine_' has no attribute 'xyz'; it has Needy, Tool, broken, later, make, partial, ",
        ),
        ("mine_:Tool.outer_", r"'Tool' has no attribute 'outer_'"),
        ("mine_:Needy", r"calling Needy\(\) without arguments failed: TypeError: .*corpus.*a function without"),
        ("mine_:broken", r"calling broken\(\) .* RuntimeError: no server there"),
        ("mine_:later", r"later is a coroutine function"),
    ],
)
def test_errors_name_the_place_and_the_fix(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        load_object(spec, "tool")
    assert "\n" not in str(caught.value)
