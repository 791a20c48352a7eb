import json
import random
from dataclasses import asdict

import pytest

from tests.env.tasks.world.full.small import small_world
from venus_env.corpus import open_corpus
from venus_env.corpus.document import Corpus
from venus_env.policies import OraclePolicy, RandomPolicy, next_turn, start_episode
from venus_env.policies.scripted import UNKNOWN, Style, hits_in
from venus_env.protocol.config import EpisodeConfig
from venus_env.protocol.parser import Call, parse_turn
from venus_env.protocol.prompt import unwrap_tool_response
from venus_env.protocol.trajectory import Trajectory
from venus_env.rewards.compose import RewardConfig
from venus_env.session import ResearchSession
from venus_env.tasks import Evidence, Task, load_tasks
from venus_env.tasks.world import World, make_task, passages, random_world
from venus_env.tasks.world.full import choose
from venus_env.tasks.world.full.build import PASSAGES, write
from venus_env.tasks.world.graph import mentions
from venus_env.tools.search import SearchTool
from venus_env.tools.visit import VisitTool


@pytest.fixture(scope="module")
def world() -> World:
    return random_world(random.Random(5), 150)


@pytest.fixture(scope="module")
def corpus(world: World, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("world")
    rows = [{key: value for key, value in asdict(page).items() if value is not None} for page in passages(world)]
    source = folder / "passages.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return open_corpus(source, cache_dir=folder / "cache")


def _tasks(world: World, count: int) -> list[Task]:
    rng = random.Random(11)
    tasks: list[Task] = []
    while len(tasks) < count:
        paths = list(world.paths(rng.choice(sorted(world.entities)), 1 + len(tasks) % 3))
        if paths:
            tasks.append(make_task(world, rng.choice(paths), rng, id=f"t{len(tasks)}"))
    return tasks


async def _play(
    policy: OraclePolicy | RandomPolicy, task: Task, corpus: Corpus, *, compact: bool = True, max_turns: int = 20
) -> Trajectory:
    tools = (
        SearchTool(corpus, 3, 12, style="compact" if compact else "json"),
        VisitTool(corpus, style="compact" if compact else "full"),
    )
    config = EpisodeConfig(prompt="compact", max_turns=max_turns)
    session = ResearchSession(task, tools, config=config, rewards=RewardConfig(information_gain=False))
    await session.start()
    player = start_episode(policy, task, seed=0)
    while not session.done:
        await session.step(await next_turn(player, session.messages))
    return session.trajectory()


def _thoughts(trajectory: Trajectory) -> list[str]:
    turns = [m["content"] for m in trajectory.messages if m["role"] == "assistant"]
    return [turn.split("</think>")[0].removeprefix("<think>") for turn in turns]


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("style", ["direct", "recover", "mixed"])
async def test_it_solves_a_made_up_world_through_the_tools(
    world: World, corpus: Corpus, style: Style, compact: bool
) -> None:
    for task in _tasks(world, 15):
        played = await _play(OraclePolicy(style), task, corpus, compact=compact)
        assert played.score == 1.0
        assert all(turn.format_ok and turn.ok and not turn.duplicate for turn in played.turns)
        assert all(len(thought.split()) < 15 for thought in _thoughts(played))


async def test_direct_takes_two_calls_a_hop_and_recover_one_more(world: World, corpus: Corpus) -> None:
    for task in _tasks(world, 9):
        assert task.hops is not None
        assert len((await _play(OraclePolicy("direct"), task, corpus)).turns) == 2 * task.hops + 1
        recovered = await _play(OraclePolicy("recover"), task, corpus)
        assert len(recovered.turns) == 2 * task.hops + 2
        assert sum("is the wrong page. Back to" in thought for thought in _thoughts(recovered)) == 1


async def test_it_opens_only_urls_that_a_search_has_shown(world: World, corpus: Corpus) -> None:
    for task in _tasks(world, 9):
        played = await _play(OraclePolicy("mixed", seed=3), task, corpus)
        shown: set[str] = set()
        for message in played.messages[2:]:
            if message["role"] == "user":
                shown |= {url for _, url in hits_in(unwrap_tool_response(message["content"]))}
                continue
            turn = parse_turn(message["content"])
            if isinstance(turn, Call) and turn.name == "visit":
                assert set(turn.arguments["url"]) <= shown


async def test_equal_seeds_play_alike(world: World, corpus: Corpus) -> None:
    task = _tasks(world, 3)[2]
    played = [(await _play(OraclePolicy("recover", seed=4), task, corpus)).messages for _ in range(2)]
    assert played[0] == played[1]
    assert len({tuple(_thoughts(await _play(OraclePolicy("recover", s), task, corpus))) for s in range(8)}) > 1


async def test_it_does_not_know_what_the_tools_do_not_show(world: World, corpus: Corpus) -> None:
    task = _tasks(world, 1)[0]
    unread = task.model_copy(
        update={"answers": ("Atlantis",), "evidence": (task.evidence[0].model_copy(update={"value": "Atlantis"}),)}
    )
    played = await _play(OraclePolicy(), unread, corpus)
    assert played.messages[-1]["content"].endswith(f"<answer>{UNKNOWN}</answer>")
    assert played.score == 0.0
    unseen = task.model_copy(update={"evidence": (Evidence(title="Nowhere", relation="capital", value="Atlantis"),)})
    played = await _play(OraclePolicy(), unseen, corpus)
    assert [turn.tool for turn in played.turns] == ["search", "search", None]
    assert played.messages[-1]["content"].endswith(f"<answer>{UNKNOWN}</answer>")


async def test_titles_without_values_are_all_opened(world: World, corpus: Corpus) -> None:
    task = _tasks(world, 2)[1]
    titles_only = task.model_copy(update={"evidence": tuple(Evidence(title=step.title) for step in task.evidence)})
    played = await _play(OraclePolicy(), titles_only, corpus)
    assert played.score == 1.0
    opened = [turn.arguments["url"][0] for turn in played.turns if turn.tool == "visit" and turn.arguments]
    assert opened == [step.url for step in task.evidence]
    assert played.turns[0].arguments == {"query": [task.question]}


async def test_without_evidence_it_answers_what_the_best_page_says(world: World, corpus: Corpus) -> None:
    task = _tasks(world, 1)[0]
    bare = task.model_copy(update={"evidence": ()})
    played = await _play(OraclePolicy(), bare, corpus)
    assert [turn.tool for turn in played.turns] == ["search", "visit", None]
    wrong = bare.model_copy(update={"answers": ("Atlantis",)})
    assert (await _play(OraclePolicy(), wrong, corpus)).score == 0.0


async def test_when_forced_it_says_what_it_has_read_or_that_it_does_not_know(world: World, corpus: Corpus) -> None:
    one, two = _tasks(world, 2)
    # The last call before the limit is the visit: the request for an answer comes with the page.
    played = await _play(OraclePolicy(), one, corpus, max_turns=3)
    assert (played.forced, played.score) == ("turn_limit", 1.0)
    played = await _play(OraclePolicy(), two, corpus, max_turns=3)
    assert (played.forced, played.score) == ("turn_limit", 0.0)
    assert played.messages[-1]["content"].endswith(f"<answer>{UNKNOWN}</answer>")


def test_hits_in_reads_both_layouts() -> None:
    compact = (
        "1. New York\nhttps://a.b/New_York\nsnippet 1. of\n2. Lima\nhttps://a.b/Lima\nx\n=======\n1. C\nhttps://c\ny"
    )
    assert hits_in(compact) == [("New York", "https://a.b/New_York"), ("Lima", "https://a.b/Lima"), ("C", "https://c")]
    record = {"query": "q", "web_page_info_list": [{"title": "T", "url": "https://t", "snippet": "s"}]}
    assert hits_in(json.dumps([record, {"query": "r", "web_page_info_list": [], "message": "none"}])) == [
        ("T", "https://t")
    ]


def test_styles_are_checked() -> None:
    with pytest.raises(ValueError, match="direct, recover, cross_check, mixed, varied"):
        OraclePolicy("wild")  # type: ignore[arg-type]


async def test_embedded_test_questions_oracle_wins_and_chance_fails() -> None:
    corpus = open_corpus("embedded")
    tasks = random.Random(0).sample(load_tasks("embedded", "test"), 100)
    oracle = [(await _play(OraclePolicy("mixed"), task, corpus)).score for task in tasks]
    chance = [(await _play(RandomPolicy(), task, corpus)).score for task in tasks]
    assert sum(score or 0.0 for score in oracle) / len(tasks) >= 0.95
    assert sum(score or 0.0 for score in chance) / len(tasks) < 0.02


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> tuple[Corpus, list[Task]]:
    """A small world of the full kind, with some questions of every kind that it has."""
    folder = tmp_path_factory.mktemp("full")
    small = small_world()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose, "QUOTAS", {"train": 120})
        tasks = choose.choose_tasks(small, "train", 0)
    write(folder, small, tasks)
    source = folder / "all.jsonl.gz"
    source.write_bytes(b"".join((folder / name).read_bytes() for name in PASSAGES))
    return open_corpus(source, cache_dir=folder / "cache"), tasks


@pytest.mark.slow
@pytest.mark.parametrize("style", ["direct", "recover", "cross_check", "varied"])
async def test_it_solves_every_kind_of_question(full: tuple[Corpus, list[Task]], style: Style) -> None:
    corpus, tasks = full
    assert {task.kind for task in tasks} >= {"chain", "obfuscated", "comparison", "count", "superlative"}
    solved = {task.id: (await _play(OraclePolicy(style), task, corpus, compact=False, max_turns=40)) for task in tasks}
    assert [task.question for task in tasks if solved[task.id].score != 1.0] == []
    assert all(turn.format_ok and turn.ok and not turn.duplicate for one in solved.values() for turn in one.turns)


async def test_an_open_page_is_not_opened_again(full: tuple[Corpus, list[Task]]) -> None:
    corpus, tasks = full
    task = next(task for task in tasks if task.kind == "obfuscated")
    played = await _play(OraclePolicy("direct"), task, corpus, compact=False, max_turns=40)
    pages = list(dict.fromkeys(step.url for step in task.evidence))
    assert len(pages) < len(task.evidence)
    assert [turn.arguments["url"][0] for turn in played.turns if turn.tool == "visit" and turn.arguments] == pages


async def test_cross_check_opens_a_second_page_that_says_the_same(full: tuple[Corpus, list[Task]]) -> None:
    corpus, tasks = full
    confirmed = 0
    for task in [task for task in tasks if task.kind == "chain"][:12]:
        direct = await _play(OraclePolicy("direct"), task, corpus, compact=False, max_turns=40)
        checked = await _play(OraclePolicy("cross_check"), task, corpus, compact=False, max_turns=40)
        assert 2 <= len(checked.turns) - len(direct.turns) <= 3
        last = _thoughts(checked)[-1]
        own = {step.url for step in task.evidence}
        opened = [turn.arguments["url"][0] for turn in checked.turns if turn.tool == "visit" and turn.arguments]
        second = await corpus.page(next(url for url in reversed(opened) if url not in own))
        assert second is not None
        text = "\n".join(passage.text for passage in second.passages)
        step = task.evidence[-1]
        tells = mentions(f"{second.title}\n{text}", step.title) and mentions(text, step.value or "")
        assert ("says the same." in last) == tells == ("No other page tells." not in last)
        confirmed += tells
    assert 0 < confirmed < 12


async def test_what_stands_on_no_page_is_weighed(full: tuple[Corpus, list[Task]]) -> None:
    corpus, tasks = full
    task = next(task for task in tasks if task.kind == "count")
    played = await _play(OraclePolicy("direct"), task, corpus, compact=False, max_turns=40)
    assert _thoughts(played)[-1].endswith(f"So the answer is {task.answers[0]}. Done.")
