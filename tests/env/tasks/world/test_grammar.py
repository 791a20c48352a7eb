import random
from string import Formatter

import pytest

from venus_env.tasks.world import KINDS, Entity, Step, ask, render_facts, render_page
from venus_env.tasks.world.fresh import VALUES
from venus_env.tasks.world.relations import FRAMES

LYON = Entity(
    "Lyon",
    "city",
    {"country": "France", "larger_city": "Marseille"},
    traits={"size": "medium", "half": "northern"},
)
FRANCE = Entity("France", "country", {"capital": "Paris"}, traits={"size": "large", "half": "northern"})
CAPITAL_OF_LYONS_COUNTRY = (
    Step(LYON, KINDS["city"].relations["country"], "France"),
    Step(FRANCE, KINDS["country"].relations["capital"], "Paris"),
)


def test_a_page_states_every_fact_once_after_its_lead() -> None:
    for seed in range(20):
        page = render_facts(LYON, random.Random(seed))
        relations = [relation for relation, _ in page]
        assert relations[0] is None
        assert sorted(relations[1:]) == ["country", "larger_city"]
        lead, *facts = [sentence for _, sentence in page]
        assert lead.startswith("Lyon ")
        assert "France" not in lead
        assert "Marseille" not in lead
        assert sum("France" in sentence for sentence in facts) == 1


def test_render_page_is_the_sentences_of_render_facts() -> None:
    facts = render_facts(LYON, random.Random(3))
    assert render_page(LYON, random.Random(3)) == [sentence for _, sentence in facts]


def test_ask_nests_phrases_and_names_only_the_start() -> None:
    questions = {ask(CAPITAL_OF_LYONS_COUNTRY, random.Random(seed)) for seed in range(300)}
    # 4 frames; "in which Lyon is found" style phrases allowed for the innermost hop only: 3 outer x 3 inner.
    assert len(questions) == len(FRAMES) * 9
    assert "What is the capital of the country of Lyon?" in questions
    assert "Find the seat of government of the country where Lyon lies." in questions
    assert not any("France" in question or "Paris" in question for question in questions)


def test_a_person_is_asked_for_with_who() -> None:
    radon = Entity("Radon", "element", {"discoverer": "Friedrich Ernst Dorn"}, traits={"state": "radioactive"})
    path = (Step(radon, KINDS["element"].relations["discoverer"], "Friedrich Ernst Dorn"),)
    questions = {ask(path, random.Random(seed)) for seed in range(100)}
    assert "Who is the discoverer of Radon?" in questions
    assert not any(question.startswith("What is") for question in questions)


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_the_table_of_a_kind_is_sound(kind) -> None:
    assert len(set(kind.leads)) == len(kind.leads) >= 3
    for lead in kind.leads:
        fields = {name for _, name, _, _ in Formatter().parse(lead) if name}
        assert fields == {"n", *kind.traits}
        # The snippet of a compact search (12 words) must lie inside the lead even for a one-word name.
        assert len(lead.split()) >= 12
    for name, relation in kind.relations.items():
        assert relation.name == name
        assert relation.target in KINDS or relation.target in VALUES
        assert len(set(relation.sentences)) == len(relation.sentences) >= 3
        assert all(sentence.count("{v}") == 1 for sentence in relation.sentences)
        assert sum("{n}" in sentence for sentence in relation.sentences) in (0, 1, 2)
        if relation.askable:
            assert len(set(relation.phrases)) >= 3
            assert all(phrase.count("{x}") == 1 for phrase in relation.phrases)
            # Inside another phrase only phrases that end with their subject are used: there must be one.
            assert any(phrase.endswith("{x}") for phrase in relation.phrases)


def test_no_two_wordings_of_a_kind_read_the_same() -> None:
    for kind in KINDS.values():
        wordings = [sentence for relation in kind.relations.values() for sentence in relation.sentences]
        phrases = [phrase for relation in kind.askable for phrase in relation.phrases]
        assert len(set(wordings)) == len(wordings)
        assert len(set(phrases)) == len(phrases)


def test_url_is_the_title_with_underscores() -> None:
    assert Entity("New York", "city", {}).url == "https://venus.wiki/New_York"
