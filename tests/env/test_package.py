import pytest

import venus_env
from venus_env.session import ResearchSession


def test_public_names_are_where_they_say() -> None:
    for name in venus_env.__all__:
        assert getattr(venus_env, name).__name__ == name
    assert venus_env.ResearchSession is ResearchSession
    with pytest.raises(AttributeError, match="no attribute 'Nope'"):
        venus_env.Nope  # noqa: B018
