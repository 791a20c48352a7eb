import subprocess
import sys

import pytest

import venus_env
from venus_env.session import ResearchSession


def test_public_names_are_where_they_say() -> None:
    for name in venus_env.__all__:
        assert getattr(venus_env, name).__name__ == name
    assert venus_env.ResearchSession is ResearchSession
    with pytest.raises(AttributeError, match="no attribute 'Nope'"):
        venus_env.Nope  # noqa: B018


def test_no_public_name_loads_anything_heavy() -> None:
    code = """
import sys, venus_env
light = {name for name in sys.modules if name.startswith("venus_env")}
assert light == {"venus_env"}, light
for name in venus_env.__all__:
    getattr(venus_env, name)
heavy = {"torch", "transformers", "verl", "ray", "faiss", "bm25s", "tantivy", "omegaconf", "pandas"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True)
