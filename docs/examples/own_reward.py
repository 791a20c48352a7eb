"""Rewards of your own: a judge that grades answers, and Gymnasium's reward wrappers on top."""

import re
from collections.abc import Sequence

import gymnasium as gym

import venus_env  # noqa: F401 (registers the environment)
from venus_env.protocol import render_answer, render_call
from venus_env.tasks.task import Task


class NumberJudge:
    """Grades a number by how close it is: 1 if exact, 0 if it is off by a tenth or more."""

    async def grade(self, question: str, answers: Sequence[str], prediction: str) -> float:
        """Give a verdict in [0, 1]: the outcome reward, and info["score"].

        A judge that asks a model raises when the model does not answer. Such an episode ends as "judge_failure", with
        reward 0 and score None; returning 0.0 would blame the policy.
        """
        said = re.search(r"\d+(\.\d+)?", prediction.replace(",", ""))
        if said is None:
            return 0.0
        errors = [abs(float(said[0]) / float(answer) - 1) for answer in answers]
        return max(0.0, 1 - 10 * min(errors))


class TurnCost(gym.RewardWrapper):
    """Makes every turn cost something, so that the policy does not dawdle."""

    def __init__(self, env: gym.Env, cost: float) -> None:
        super().__init__(env)
        self.cost = cost

    def reward(self, reward: float) -> float:
        """Shape the reward of one turn; info["reward_terms"] and the trajectory keep the parts as they were."""
        return reward - self.cost


task = Task(id="magdeburg", question="How many people live in Magdeburg?", answers=("244329",))
env = TurnCost(
    gym.make(
        "VenusResearch-v0",
        tasks=[task],
        judge=NumberJudge(),
        rewards={"format_penalty": 0.5, "gain_turns": "visit"},  # the parts of the built-in reward have settings
    ),
    cost=0.05,
)


def play(answer: str) -> tuple[list[float], float | None]:
    """Search once, then answer; return the rewards and the score."""
    env.reset()
    _, first, *_ = env.step(render_call("Look it up.", "search", {"query": ["Magdeburg population"]}))
    _, second, _, _, info = env.step(render_answer("Done.", answer))
    return [first, second], info["score"]


results = {answer: play(answer) for answer in ("244329", "About 240,000", "Many")}
for answer, (rewards, score) in results.items():
    print(f"{answer!r}: rewards {[round(reward, 2) for reward in rewards]}, score {score:.2f}")
