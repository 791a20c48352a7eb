from __future__ import annotations

import json

import pytest

from venus_env.beliefs.evidence import EvidenceReader, evidence_words
from venus_env.protocol.prompt import neutralise, render_call, wrap_tool_response
from venus_env.protocol.turns import Message


def turn(name: str, arguments: dict[str, object], reply: str) -> list[Message]:
    return [
        {"role": "assistant", "content": render_call("I guess Lyon.", name, arguments)},
        {"role": "user", "content": wrap_tool_response(neutralise(reply))},
    ]


def read(*messages: Message) -> list[str]:
    return [" ".join(sentence) for sentence in EvidenceReader().read(messages)]


def test_json_hits_count_and_the_query_does_not() -> None:
    hits = [{"title": "Rhone", "url": "https://w.org/Lyon", "snippet": "The Rhone is long. It is cold."}]
    reply = json.dumps([{"query": "Lyon", "web_page_info_list": hits}])
    expected = ["rhone", "the rhone is long", "it is cold"]
    assert read(*turn("search", {"query": ["Lyon"]}, reply)) == expected
    # A request for the final answer may follow in the same message.
    assert read(*turn("search", {"query": ["Lyon"]}, reply + "\n\nAnswer now, Lyon.")) == expected


def test_goal_of_a_visit_frame_does_not_count() -> None:
    reply = (
        "The useful information in https://w.org/Lyon for user goal is it Lyon? as follows: \n\n"
        "Evidence in page: \nThe mayor of Lyon is Ann.\n\nSummary: \nThe mayor of Lyon is Ann.\n\n"
    )
    found = read(*turn("visit", {"url": ["https://w.org/Lyon"], "goal": "is it Lyon?"}, reply))
    assert sum(sentence.split().count("lyon") for sentence in found) == 1
    assert "the mayor of lyon is ann" in found


def test_unknown_page_named_by_the_policy_is_no_evidence() -> None:
    assert "lyon" not in " ".join(read(*turn("visit", {"url": ["Lyon"], "goal": "x"}, "Lyon\nThere is no such page.")))


def test_each_block_of_a_reply_may_repeat_the_goal() -> None:
    reply = "\n=======\n".join(f"Page {i} for Lyon says: nothing {i}." for i in range(3))
    assert "lyon" not in " ".join(read(*turn("visit", {"url": ["a", "b", "c"], "goal": "Lyon"}, reply)))


def test_the_same_sentence_counts_once() -> None:
    visit = turn("visit", {"url": ["u"], "goal": "g"}, "Rhone\nIt is long. It is cold.")
    again = turn("visit", {"url": ["u"], "goal": "h"}, "Rhone\nIt is cold. It is wide.")
    assert read(*visit, *again, *visit) == ["rhone", "it is long", "it is cold", "it is wide"]


@pytest.mark.parametrize("text", ["It is long! Is it cold? It is_so.\nNo.. Yes", "It is “long”! Está frio? a。b！c"])
def test_sentences_are_the_same_in_and_out_of_ascii(text: str) -> None:
    found = read(*turn("visit", {"url": ["u"], "goal": "g"}, text))
    beside = read(*turn("visit", {"url": ["u"], "goal": "g"}, f"é é. {text}"))
    assert beside == ["e e", *found]
    assert len(found) == 5


def test_grouped_numbers_are_one_word() -> None:
    found = " ".join(evidence_words("2,493,859 of 66,256; 1,2,3 and 1,2345"))
    assert found == "2493859 of 66256 1 2 3 and 1 2345"
    assert read(*turn("visit", {"url": ["u"], "goal": "x"}, "It has 66,256 people.")) == ["it has 66256 people"]
    goal = "who counted 66,256"
    assert "66256" not in " ".join(read(*turn("visit", {"url": ["u"], "goal": goal}, f"For {goal}: nobody.")))


def test_only_replies_to_calls_count() -> None:
    call = {"role": "assistant", "content": render_call("", "search", {"query": ["x"]})}
    messages: list[Message] = [
        {"role": "system", "content": "Lyon."},
        {"role": "user", "content": "Is it Lyon?"},
        {"role": "assistant", "content": "<think>Lyon</think> Lyon"},  # malformed: the reply only explains
        {"role": "user", "content": wrap_tool_response("Error: write Lyon in <answer>.")},
        call,  # type: ignore[list-item]
        {"role": "user", "content": wrap_tool_response("Error: unknown tool 'Lyon'. Nothing was run.")},
    ]
    assert read(*messages) == []


def test_state_survives_between_calls_of_read() -> None:
    call, reply = turn("visit", {"url": ["u"], "goal": "g"}, "It is long.")
    reader = EvidenceReader()
    assert list(reader.read([call])) == []
    assert list(reader.read([reply])) == [["it", "is", "long"]]
