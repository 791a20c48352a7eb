"""A belief of your own: what it says of the accepted answers, turn by turn, becomes the information gain."""

import math
from collections.abc import Sequence

import gymnasium as gym

import venus_env  # noqa: F401 (registers the environment)
from venus_env.beliefs.base import score_incrementally
from venus_env.protocol import Message, Trajectory, render_answer, render_call
from venus_env.tasks.task import Task


class SeenBelief:
    """Believes in what it has read: an answer that has come up n times has probability (1 + n) / (10 + n)."""

    def open(self, question: str, answers: Sequence[str]) -> "SeenState":
        """Begin an episode; cheap, and any number of episodes share the belief."""
        return SeenState(answers)

    async def score(
        self, trajectory: Trajectory, boundaries: Sequence[int], answers: Sequence[str]
    ) -> list[list[float]]:
        """Score a finished episode; a belief over a language model would do this in one pass."""
        return await score_incrementally(self, trajectory, boundaries, answers)


class SeenState:
    """What has been read in one episode."""

    def __init__(self, answers: Sequence[str]) -> None:
        self.answers = answers
        self.seen = [0] * len(answers)

    async def update(self, new_messages: Sequence[Message]) -> list[float]:
        """Read what is new, and give one log-probability per accepted answer. If it cannot, it raises."""
        for message in new_messages:
            if message["role"] == "user":  # not what the policy said itself: guessing must not pay
                for index, answer in enumerate(self.answers):
                    self.seen[index] += answer.lower() in message["content"].lower()
        return [math.log((1 + count) / (10 + count)) for count in self.seen]


task = Task(id="magdeburg", question="In which country is Magdeburg?", answers=("Germany", "Deutschland"))
env = gym.make("VenusResearch-v0", tasks=[task], belief=SeenBelief())

env.reset(seed=7)
gains = []
for turn in (
    render_call("Something else first.", "search", {"query": ["Tokyo"]}),
    render_call("Look it up.", "search", {"query": ["Magdeburg"]}),
    render_call("Make sure.", "visit", {"url": ["https://venus.wiki/Magdeburg"], "goal": "country"}),
):
    _, reward, _, _, info = env.step(turn)
    gains.append(info["reward_terms"]["information_gain"])
    print(f"gain {gains[-1]:.2f} from {info['turn'].arguments}")
_, reward, terminated, _, info = env.step(render_answer("Done.", "Germany"))
print("outcome", info["reward_terms"])
