import copy
import pickle
import random
import subprocess
import sys
import warnings
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

import venus_env  # noqa: F401 (registers the environment)
from tests.conftest import CONTROL, TAGS, train_tokenizer
from tests.env.chat_templates import STRICT_TEMPLATE, strict_history
from tests.env.protocol.tools import LookupArguments
from venus_env.envs.research import ResearchEnv
from venus_env.envs.token_wrapper import TokenWrapper, tokenizer_size
from venus_env.policies.scripted import OraclePolicy
from venus_env.protocol.episode import estimate_tokens
from venus_env.protocol.prompt import neutralise, render_answer, render_call
from venus_env.protocol.turns import ToolResult
from venus_env.tasks.task import Task
from venus_env.tokens import Renderer

TASK = Task(id="lund", question="In which country is Lund?", answers=("Sweden",))
STYLES = ["chatml", "thinking", "strict"]


class Say:
    """Says what its query stands for, so that a test decides what a web page holds."""

    name: ClassVar[str] = "search"
    aliases: ClassVar[tuple[str, ...]] = ()
    description: ClassVar[str] = "Find pages."
    arguments: type[BaseModel] = LookupArguments

    def __init__(self, texts: dict[str, str] | None = None) -> None:
        self.texts = texts or {}

    async def __call__(self, arguments: Any) -> ToolResult:
        return ToolResult(self.texts.get(arguments.query[0], arguments.query[0]))


@pytest.fixture(scope="module")
def renderers(chatml_tokenizer: Any, thinking_tokenizer: Any) -> dict[str, Renderer]:
    strict = train_tokenizer(STRICT_TEMPLATE)
    tokenizers = {"chatml": chatml_tokenizer, "thinking": thinking_tokenizer, "strict": strict}
    return {style: Renderer(tokenizer) for style, tokenizer in tokenizers.items()}


@pytest.fixture(params=STYLES)
def renderer(request: pytest.FixtureRequest, renderers: dict[str, Renderer]) -> Renderer:
    return renderers[request.param]


@pytest.fixture
def chatml(renderers: dict[str, Renderer]) -> Renderer:
    return renderers["chatml"]


def make(renderer: Renderer, texts: dict[str, str] | None = None, **arguments: Any) -> TokenWrapper:
    task = arguments.pop("task", TASK)
    wrapper = {name: arguments.pop(name) for name in ("max_new_tokens", "vocab_size") if name in arguments}
    env = ResearchEnv(tasks=[task], tools=[Say(texts)], **{"belief": None, "prompt": "compact", **arguments})
    return TokenWrapper(env, renderer, **wrapper)


def laid_out(thought: str, action: str) -> str:
    """A turn exactly as the strict template lays out a history."""
    return f"<think>\n{thought}\n</think>\n\n{action}"


def call(query: str, thought: str = "I look.") -> str:
    return laid_out(thought, render_call("", "search", {"query": [query]}).removeprefix("<think></think>\n"))


def full_render(env: TokenWrapper, generate: bool = True) -> str:
    """What re-rendering the whole chat gives; the line end after the last turn belongs to the message after it."""
    tokenizer, messages = env.renderer.tokenizer, env.get_wrapper_attr("messages")
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=generate)
    return str(text) if generate else str(text).removesuffix("\n")


def full_ids(env: TokenWrapper, generate: bool = True) -> list[int]:
    return env.renderer.tokenizer.encode(full_render(env, generate), add_special_tokens=False)


class Player:
    """Plays turns given as text and keeps the context as a trainer would."""

    def __init__(self, env: TokenWrapper, end_turns: bool = True) -> None:
        self.env = env
        self.end_turns = end_turns
        observation, self.info = env.reset(seed=0)
        self.context = observation.tolist()
        self.check(observation)

    def turn(self, text: str) -> tuple[Any, ...]:
        ids = self.env.renderer.encode_turn(text)
        action = np.array(ids if self.end_turns else ids[:-1], dtype=np.int64)
        assert action in self.env.action_space
        step = self.env.step(action)
        self.context += [*action.tolist(), *step[0].tolist()]
        self.check(step[0])
        self.info = step[4]
        return step

    def check(self, observation: Any) -> None:
        assert observation in self.env.observation_space
        assert self.context == self.env.conversation.ids
        usage = self.env.get_wrapper_attr("session").episode.usage
        assert usage.context_tokens == len(self.context)


@pytest.mark.parametrize("end_turns", [True, False])
def test_the_context_equals_a_full_render_after_every_step(renderer: Renderer, end_turns: bool) -> None:
    env = make(renderer, {"p": "A page:\r\n\r\n  indented \U0001f600\n\n", "q": "\n\n"})
    player = Player(env, end_turns)
    assert player.context == full_ids(env)
    for query in ("p", "q", "p"):
        *_, terminated, truncated, info = player.turn(call(query))
        assert (terminated, truncated, info["end"]) == (False, False, "running")
        assert player.context == full_ids(env)
    observation, reward, terminated, truncated, info = player.turn(laid_out("Done.", "<answer>Sweden</answer>"))
    assert (reward, terminated, truncated, info["score"]) == (1.0, True, False, 1.0)
    assert player.context == full_ids(env, generate=False)
    assert observation.tolist() == ([] if end_turns else [renderer.end_of_turn_id])
    assert info["usage"]["context_tokens"] == len(player.context)


def test_a_request_for_the_final_answer_keeps_all_thinking_in_context(renderer: Renderer) -> None:
    env = make(renderer, max_turns=2)
    player = Player(env)
    assert player.turn(call("x", thought="Early thought."))[4]["forced"] == "turn_limit"
    assert player.context == full_ids(env)
    assert "Early thought." in renderer.decode(player.context)


def test_a_strict_template_differs_in_the_line_ends_around_thoughts_only(renderers: dict[str, Renderer]) -> None:
    env = make(renderers["strict"])
    player = Player(env)
    player.turn("<think>\n\nI look.</think>" + call("x").split("</think>\n\n")[1])
    sampled = 'I look.</think><tool_call>{"name"'
    laid_out_anew = 'I look.\n</think>\n\n<tool_call>{"name"'
    context = renderers["strict"].decode(player.context)
    assert context.count(sampled) == 1
    assert full_render(env) == context.replace(sampled, laid_out_anew)


def test_loss_turns_and_boundaries_are_those_of_the_actions(renderer: Renderer) -> None:
    env = make(renderer)
    player = Player(env, end_turns=False)
    with pytest.raises(ValueError, match="no action"):
        env.record_logprobs([])
    texts = [call("x"), call("y"), laid_out("Done.", "<answer>Sweden</answer>")]
    for number, text in enumerate(texts):
        player.turn(text)
        count = len(renderer.encode_turn(text)) - 1
        env.record_logprobs([-float(number + 1)] * count)
        with pytest.raises(ValueError, match=f"{count} ids but there are 0"):
            env.record_logprobs([])
    conversation = env.conversation
    assert [renderer.decode_turn(conversation.ids[turn.start : turn.end]) for turn in conversation.turns] == texts
    assert [turn.start for turn in conversation.turns] == conversation.boundaries
    inside = {index: turn.turn for turn in conversation.turns for index in range(turn.start, turn.end)}
    assert conversation.mask == [int(index in inside) for index in range(len(conversation.ids))]
    expected = [-float(inside[index] + 1) if index in inside else 0.0 for index in range(len(conversation.ids))]
    assert conversation.logprobs == expected


def test_everything_but_the_token_count_is_the_environments_own(renderer: Renderer) -> None:
    plain = gym.make("VenusResearch-v0", max_turns=4)
    env = TokenWrapper(gym.make("VenusResearch-v0", max_turns=4), renderer)
    question, expected = plain.reset(seed=4)
    observation, info = env.reset(seed=4)
    assert question in renderer.decode(observation)
    policy = OraclePolicy().new_episode(env.get_wrapper_attr("task"))
    while True:
        for own in (expected, info):
            own["usage"].pop("context_tokens")
        assert info == expected
        if info["end"] != "running":
            break
        sampled = renderer.encode_turn(policy.act(env.get_wrapper_attr("messages")))
        text, *step, expected = plain.step(renderer.decode_turn(sampled))
        observation, *token_step, info = env.step(sampled)
        assert token_step == step
        assert text in renderer.decode(observation)


# Each word of this page is many tokens, which the environment's estimate of four bytes a token cannot know.
DENSE_PAGE = " ".join(["\U0001f9ff\U0001fa90"] * 150)


def test_budgets_are_measured_with_the_tokenizer(chatml: Renderer) -> None:
    env = make(chatml, {"p": DENSE_PAGE}, max_context_tokens=1000)
    player = Player(env)
    *_, terminated, truncated, info = player.turn(call("p"))
    assert (terminated, truncated, info["forced"]) == (False, False, "context_limit")
    assert env.max_new_tokens >= 125 - 8 * 4  # the room for an answer is kept, but for the frames of the messages
    twin = pickle.loads(pickle.dumps(env))
    assert twin.unwrapped.source.count_tokens(DENSE_PAGE) == chatml.count_tokens(DENSE_PAGE) > 900
    assert player.turn(laid_out("So.", "<answer>Sweden</answer>"))[2]


def test_a_context_that_is_full_truncates_the_episode(chatml: Renderer) -> None:
    env = make(chatml, {"p": DENSE_PAGE}, max_context_tokens=1000, count_tokens=estimate_tokens)
    player = Player(env)
    observation, reward, terminated, truncated, info = player.turn(call("p"))
    assert len(observation) > 1000
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert (info["end"], info["score"], info["usage"]["context_tokens"]) == ("context_limit", 0.0, len(player.context))
    trajectory = env.get_wrapper_attr("trajectory")
    assert (trajectory.end, trajectory.score) == ("context_limit", 0.0)
    assert trajectory.usage == info["usage"]
    assert env.max_new_tokens == 0
    with pytest.raises(ResetNeeded, match="context_limit"):
        env.step([])
    env.reset()
    assert env.max_new_tokens > 0


def test_an_answer_that_fills_the_context_is_an_answer(chatml: Renderer) -> None:
    env = make(chatml, max_context_tokens=300, max_new_tokens=400)
    player = Player(env)
    assert env.max_new_tokens == 300 - len(player.context) - 1 < 200
    *_, terminated, truncated, info = player.turn(laid_out("\U0001f9ff" * 80, "<answer>Sweden</answer>"))
    assert len(player.context) > 300
    assert (terminated, truncated, info["end"], info["score"]) == (True, False, "answered", 1.0)


def test_a_prompt_that_does_not_fit_is_named(chatml: Renderer) -> None:
    with pytest.raises(ValueError, match=r"prompt of task 'lund' takes \d+ tokens, and max_context_tokens is 64"):
        make(chatml, max_context_tokens=64).reset(seed=0)


@pytest.mark.parametrize("seed", range(5))
def test_ids_that_are_no_text_are_kept_and_read_as_replacement_characters(renderer: Renderer, seed: int) -> None:
    env = make(renderer)
    player = Player(env)
    draw = random.Random(seed)
    half = renderer.tokenizer.encode("\U0001f600", add_special_tokens=False)[:-1]
    action = [draw.randrange(env.action_space.vocab_size) for _ in range(200)] + half  # type: ignore[attr-defined]
    observation, _, terminated, truncated, _ = env.step(action)
    assert env.conversation.ids == [*player.context, *action, *observation]
    assert not terminated
    assert not truncated
    assert "\ufffd" in env.get_wrapper_attr("messages")[2]["content"]


def test_padded_vocabularies_and_empty_turns(chatml: Renderer) -> None:
    env = make(chatml, vocab_size=1000)
    env.reset(seed=0)
    env.step([999])
    assert env.conversation.ids[env.conversation.turns[0].start] == 999
    observation, *_, info = env.step([])
    assert observation[0] == chatml.end_of_turn_id
    assert info["turn"].kind == "malformed"
    assert env.conversation.turns[1].start == env.conversation.turns[1].end


@pytest.mark.parametrize(
    ("action", "error", "message"),
    [
        ([0.5], TypeError, "integers; got float64"),
        (["a"], TypeError, "integers; got <U1"),
        ("text", TypeError, "integers"),
        ([True], TypeError, "integers; got bool"),
        ([[1, 2]], ValueError, r"shape \(1, 2\)"),
        (3, ValueError, r"shape \(\)"),
        ([-1, 4], ValueError, "ids from -1 to 4 is not in TokenIds"),
        ([10**6], ValueError, "ids from 1000000"),
        ([1] * 51, ValueError, r"shape \(51,\)"),
    ],
)
def test_bad_actions_are_named_and_change_nothing(
    chatml: Renderer, action: Any, error: type[Exception], message: str
) -> None:
    env = make(chatml, max_new_tokens=50)
    env.reset(seed=0)
    before = copy.deepcopy(env.conversation.ids)
    with pytest.raises(error, match=message):
        env.step(action)
    assert env.conversation.ids == before
    assert len(env.get_wrapper_attr("messages")) == 2


def test_misuse_is_explained(chatml: Renderer) -> None:
    env = make(chatml)
    with pytest.raises(ResetNeeded, match="reset"):
        env.step([1])
    with pytest.raises(TypeError, match="ResearchEnv, not CartPole"):
        TokenWrapper(gym.make("CartPole-v1"), chatml)


def test_limits_come_from_the_environment_and_the_tokenizer(chatml: Renderer) -> None:
    env = make(chatml, max_context_tokens=1600)
    assert repr(env.action_space) == f"TokenIds({len(chatml.tokenizer)}, 200, min_length=0)"  # type: ignore[arg-type]
    env.reset(seed=0)
    assert env.max_new_tokens == 200


@pytest.mark.parametrize(("tokens", "added", "size"), [(10, {"<s>": 0}, 10), (10, {"<s>": 20}, 21), (10, {}, 10)])
def test_the_vocabulary_reaches_to_the_largest_id(tokens: int, added: dict[str, int], size: int) -> None:
    class Sized:
        def __len__(self) -> int:
            return tokens

        def get_added_vocab(self) -> dict[str, int]:
            return added

    assert tokenizer_size(Sized()) == size  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="object does not tell its size; pass vocab_size="):
        tokenizer_size(object())  # type: ignore[arg-type]


def test_check_env_with_warnings_as_errors(chatml: Renderer) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*different from the unwrapped version")
        check_env(TokenWrapper(gym.make("VenusResearch-v0"), chatml), skip_render_check=True)


def test_vector_environments_reset_and_go_on(chatml: Renderer) -> None:
    envs: Any = SyncVectorEnv([lambda: make(chatml), lambda: make(chatml)])
    observations, _ = envs.reset(seed=1)
    prompt = observations[0].tolist()
    answer = np.array(chatml.encode_turn(laid_out("Done.", "<answer>Sweden</answer>")))
    look = np.array(chatml.encode_turn(call("x")))
    observations, _, terminated, _, _ = envs.step((look, answer))
    assert (len(observations[1]), terminated.tolist()) == (0, [False, True])
    observations, *_ = envs.step((look, answer))  # Gymnasium resets an episode that has ended in the next step
    assert observations[1].tolist() == prompt
    assert envs.envs[0].conversation.ids.count(chatml.end_of_turn_id) == 6
    envs.close()


def test_specs_and_copies(chatml: Renderer) -> None:
    env = TokenWrapper(gym.make("VenusResearch-v0", max_turns=3), chatml, max_new_tokens=77)
    spec = env.spec
    assert spec is not None
    again = gym.make(spec)
    assert again.action_space == env.action_space
    for twin in (again, copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        np.testing.assert_array_equal(twin.reset(seed=3)[0], env.reset(seed=3)[0])


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_goes_on_with_the_episode(chatml: Renderer, duplicate: Any) -> None:
    env = make(chatml)
    player = Player(env)
    player.turn(call("x"))
    twin = duplicate(env)
    before = list(env.conversation.ids)
    action = chatml.encode_turn(call("y"))
    observation, *_, info = twin.step(action)
    assert twin.conversation.ids == [*before, *action, *observation]
    assert info["usage"]["turns"] == 2
    assert env.conversation.ids == before
    player.turn(call("y"))
    assert env.conversation.ids == twin.conversation.ids


@pytest.mark.parametrize("observation", ["text", "messages"])
def test_it_does_not_matter_how_the_environment_shows_its_messages(chatml: Renderer, observation: str) -> None:
    env = make(chatml, observation=observation)
    player = Player(env)
    player.turn(call("x"))
    assert player.context == full_ids(env)


def test_importing_stays_light() -> None:
    program = (
        "import sys, venus_env.envs.token_wrapper\n"
        "heavy = {'torch', 'transformers', 'verl', 'ray', 'faiss', 'bm25s', 'omegaconf', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


STRUCTURE = [*CONTROL, *TAGS, "<answer>", "</answer>", "<|im_", "start|>", "<tool_response", "|>", "<", "user\n"]
SPACE = ["\r\n", "\n", "\n\n", " ", "   ", "\t", "\u00a0"]
LETTERS = ["\U0001f600", "e\u0301", "Lund", "中文", "."]
PIECES = st.sampled_from([*STRUCTURE, *SPACE, *LETTERS, "\u2060", "\ud800"])
TEXTS = st.lists(PIECES, max_size=8).map("".join)
PROSE = st.lists(st.sampled_from([*SPACE, *LETTERS])).map("".join)


def play(renderer: Renderer, question: str, pages: list[str], thoughts: list[str], end_turns: bool) -> Player:
    task = Task(id="t", question=question, answers=("Sweden",))
    env = make(renderer, {str(index): page for index, page in enumerate(pages)}, task=task)
    player = Player(env, end_turns)
    for index, thought in enumerate(thoughts):
        *_, terminated, truncated, _ = player.turn(call(str(index), thought))
        if terminated or truncated:  # a thought can hold an answer
            break
    return player


@settings(max_examples=60, deadline=None)
@given(
    style=st.sampled_from(STYLES),
    question=TEXTS.map("Where? {}".format),
    rounds=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4),
    end_turns=st.booleans(),
)
def test_any_text_round_trips_and_nothing_in_it_becomes_structure(
    renderers: dict[str, Renderer], style: str, question: str, rounds: list[tuple[str, str]], end_turns: bool
) -> None:
    renderer = renderers[style]
    pages = [page for page, _ in rounds]
    player = play(renderer, question, pages, [f"Hm.{thought}" for _, thought in rounds], end_turns)
    layout, messages = renderer.layout, player.env.get_wrapper_attr("messages")
    texts = [message["content"] for message in messages]
    expected = layout.before_system + texts[0] + layout.system_to_user + texts[1] + layout.user_to_turn
    for message in messages[2:]:
        if message["role"] == "assistant":
            expected += message["content"].removeprefix(layout.opened) + layout.end_of_turn
        else:
            expected += layout.turn_to_user + message["content"] + layout.user_to_turn
    assert renderer.decode(player.context) == expected
    waiting = messages[-1]["role"] == "user"
    assert player.context.count(renderer.tokenizer.get_added_vocab()["<|im_start|>"]) == len(messages) + waiting
    assert player.context.count(renderer.end_of_turn_id) == len(messages)
    for turn in player.env.get_wrapper_attr("trajectory").turns:
        page = pages[turn.index]
        if turn.kind == "tool" and page.isascii() and page.strip():
            assert neutralise(page) in texts[turn.message_index + 1]
    if style == "chatml":
        assert full_render(player.env, waiting) == expected
    if style == "strict":  # what it does to old turns is spelt out in strict_history
        shown = zip(messages, strict_history(messages), strict=True)
        rendered = "".join(f"<|im_start|>{message['role']}\n{text}<|im_end|>\n" for message, text in shown)
        rendered = rendered + "<|im_start|>assistant\n<think>\n" if waiting else rendered.removesuffix("\n")
        assert full_render(player.env, waiting) == rendered


@settings(max_examples=60, deadline=None)
@given(
    style=st.sampled_from(STYLES),
    question=PROSE.map("{}Where?".format),
    rounds=st.lists(st.tuples(PROSE, PROSE), min_size=1, max_size=4),
    end_turns=st.booleans(),
)
def test_the_ids_of_prose_are_those_of_a_full_render(
    renderers: dict[str, Renderer], style: str, question: str, rounds: list[tuple[str, str]], end_turns: bool
) -> None:
    pages = [page for page, _ in rounds]
    player = play(renderers[style], question, pages, [f"Hm,{thought}." for _, thought in rounds], end_turns)
    assert player.context == full_ids(player.env)


@pytest.mark.parametrize("edited", ["{}\n", "\n{}", " {}"])
def test_one_character_of_difference_to_the_full_render_is_seen(chatml: Renderer, edited: str) -> None:
    env = make(chatml)
    player = Player(env)
    player.turn(call("x"))
    assert player.context == full_ids(env)
    message = env.get_wrapper_attr("messages")[3]
    message["content"] = edited.format(message["content"])
    assert player.context != full_ids(env)


def test_render_answer_is_read_back(renderer: Renderer) -> None:
    player = Player(make(renderer))
    assert player.turn(render_answer("Known.", "Sweden"))[4]["score"] == 1.0
