import pytest

from venus_env.policies import RandomPolicy
from venus_env.protocol.format import check_turn_format
from venus_env.protocol.parser import Answer, Call, parse_turn
from venus_env.protocol.prompt import forced_answer_request, wrap_tool_response
from venus_env.protocol.turns import Message

OPENING: list[Message] = [
    {"role": "system", "content": "s"},
    {"role": "user", "content": "What is the capital of Peru?"},
]
RESULT = '[{"query": "q", "web_page_info_list": [{"title": "Lima", "url": "https://venus.wiki/Lima", "snippet": "s"}]}]'


def _after(text: str) -> list[Message]:
    return [
        *OPENING,
        {"role": "assistant", "content": "x"},
        {"role": "user", "content": wrap_tool_response(text)},
    ]


def test_first_turn_searches_for_words_of_the_question() -> None:
    for seed in range(50):
        call = parse_turn(RandomPolicy(seed).act(OPENING))
        assert isinstance(call, Call)
        assert call.name == "search"
        (query,) = call.arguments["query"]
        assert set(query.split()) <= {"What", "is", "the", "capital", "of", "Peru"}


def test_later_turns_search_visit_seen_urls_or_answer_with_seen_words() -> None:
    kinds = set()
    for seed in range(80):
        text = RandomPolicy(seed).act(_after(RESULT))
        turn = parse_turn(text)
        assert check_turn_format(text, final=isinstance(turn, Answer))
        if isinstance(turn, Answer):
            kinds.add("answer")
            assert set(turn.text.split()) <= {
                "query",
                "q",
                "web_page_info_list",
                "title",
                "Lima",
                "url",
                "snippet",
                "s",
            }
        else:
            assert isinstance(turn, Call)
            kinds.add(turn.name)
            if turn.name == "visit":
                assert turn.arguments["url"] == ["https://venus.wiki/Lima"]
    assert kinds == {"search", "visit", "answer"}


def test_it_answers_when_forced() -> None:
    for seed in range(20):
        turn = RandomPolicy(seed).act(_after(f"{RESULT}\n\n{forced_answer_request('turn_limit')}"))
        assert isinstance(parse_turn(turn), Answer)


def test_equal_seeds_play_alike_and_episodes_differ() -> None:
    assert RandomPolicy(1).act(_after(RESULT)) == RandomPolicy(1).act(_after(RESULT))
    turns = {RandomPolicy(1).new_episode(seed=seed).act(_after(RESULT)) for seed in range(20)}
    assert len(turns) > 5


def test_answer_chance_is_checked() -> None:
    with pytest.raises(ValueError, match="answer_chance"):
        RandomPolicy(answer_chance=0)
