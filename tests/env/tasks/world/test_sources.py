import pytest

from venus_env.tasks.world.sources import fold, latin


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Hørsholm", "Horsholm"), ("Łódź", "Lodz"), ("Straße", "Strasse"), ("São Tomé", "Sao Tome"), ("Iğdır", "Igdir")],
)
def test_latin_keeps_every_letter(text: str, expected: str) -> None:
    assert latin(text) == expected


def test_fold_drops_what_has_no_base() -> None:
    assert fold("Hørsholm") == "Hrsholm"
