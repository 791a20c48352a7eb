"""One slot of a vector environment: episodes follow one another, under Gymnasium's rules for that."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode

from venus_env.envs.slot import EpisodeFailedToStart, EpisodeSource, Observation, Slot, check_action
from venus_env.session import ResearchSession

logger = logging.getLogger(__name__)

_MAX_FAILED_STARTS = 3  # in a row; one bad task is skipped, a belief that is down is not


@dataclass(frozen=True, slots=True)
class Played:
    """What one slot did in one step of a vector environment.

    Attributes:
        observation: What the slot shows now.
        reward: Reward of the turn; 0.0 for a reset.
        terminated: Whether the turn has terminated its episode.
        truncated: Whether the turn has truncated its episode.
        infos: Infos to merge, in order. In mode ``SAME_STEP`` the end of an episode brings two: one with ``final_obs``
            and ``final_info``, and that of the next episode.
    """

    observation: Observation
    reward: float
    terminated: bool
    truncated: bool
    infos: tuple[dict[str, Any], ...]


class AutoresetSlot:
    """A slot with a random stream, a limit of steps and an autoreset mode, as ``gymnasium.vector`` defines them.

    Args:
        source: Where the episodes come from.
        mode: Who starts the next episode, and when.
        max_steps: Steps after which an episode is truncated, whatever its own rules; None for no such limit.

    Attributes:
        state: ``new`` before the first reset; ``running``; ``ended``, when the next episode is due; ``lost``, when a
            step did not come to its end and nobody knows where the episode stands.
        observation: The last observation; empty before the first reset.
        final: The last episode that has ended.
    """

    def __init__(self, source: EpisodeSource, mode: AutoresetMode, max_steps: int | None) -> None:
        self._slot = Slot(source)
        self._mode = mode
        self._max_steps = max_steps
        self._steps = 0
        self._np_random: np.random.Generator | None = None
        self._np_random_seed: int | None = None
        self.state: Literal["new", "running", "ended", "lost"] = "new"
        self.observation: Observation = ""
        self.final: ResearchSession | None = None

    @property
    def session(self) -> ResearchSession:
        """The episode in this slot."""
        return self._slot.session

    @property
    def np_random(self) -> np.random.Generator:
        """The random stream; seeded by the system if :meth:`reset` has never been given a seed."""
        if self._np_random is None:
            self._np_random, self._np_random_seed = seeding.np_random()
        return self._np_random

    @property
    def np_random_seed(self) -> int | None:
        """Seed of the random stream."""
        if self._np_random_seed is None:
            self._np_random, self._np_random_seed = seeding.np_random()
        return self._np_random_seed

    def check(self, action: object) -> None:
        """Refuse a step that cannot be made, before anything moves.

        Raises:
            ResetNeeded: There is no episode, or it has ended and the next one is not started by itself.
            TypeError: The action is no text. Actions that start the next episode are not looked at.
        """
        if self.state == "new":
            raise ResetNeeded("there is no episode yet; call reset()")
        if self.state == "lost":
            raise ResetNeeded("its last step was interrupted or failed; call reset()")
        if self.state == "running":
            check_action(action)
        elif self._mode is not AutoresetMode.NEXT_STEP:
            raise ResetNeeded(
                f"the episode has ended ({self.session.episode.end}); start the next one with "
                "reset(options={'reset_mask': mask}) or async_reset(env_ids=[...])"
            )

    async def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Played:
        """Start an episode, seeding the random stream first if there is a seed.

        Raises:
            EpisodeFailedToStart: The belief failed on the question. The slot stays as it was.
        """
        if seed is not None:
            self._np_random, self._np_random_seed = seeding.np_random(seed)
        self.observation, info = await self._slot.reset(self.np_random, options)
        self.state, self._steps = "running", 0
        return Played(self.observation, 0.0, False, False, (info,))

    async def step(self, action: str) -> Played:
        """Play one turn, or start the next episode where that is due; :meth:`check` comes first.

        Raises:
            EpisodeFailedToStart: Several episodes in a row could not start.
        """
        if self.state == "ended":
            return await self._next_episode()
        self.state = "lost"  # unless the turn is completed
        observation, reward, terminated, truncated, info = await self._slot.step(action)
        self._steps += 1
        truncated = truncated or self._steps == self._max_steps
        if not (terminated or truncated):
            self.state, self.observation = "running", observation
            return Played(observation, reward, terminated, truncated, (info,))
        self.state, self.observation, self.final = "ended", observation, self.session
        if self._mode is not AutoresetMode.SAME_STEP:
            return Played(observation, reward, terminated, truncated, (info,))
        opening = await self._next_episode()
        infos = ({"final_obs": observation, "final_info": info}, *opening.infos)
        return Played(opening.observation, reward, terminated, truncated, infos)

    def render(self, mode: str | None) -> str | None:
        """Show the conversation so far; see :meth:`Slot.render`."""
        return self._slot.render(mode)

    def clear(self) -> None:
        """Forget the episodes."""
        self._slot.clear()
        self.state, self.observation, self.final = "new", "", None

    async def _next_episode(self) -> Played:
        for _ in range(_MAX_FAILED_STARTS - 1):
            try:
                return await self.reset()
            except EpisodeFailedToStart as error:
                logger.warning("%s; another task is drawn", error)
        return await self.reset()


def autoreset_mode_of(mode: AutoresetMode | str) -> AutoresetMode:
    """Read a mode from its value; a mode is returned as it is."""
    try:
        return AutoresetMode(mode)
    except ValueError:
        choices = ", ".join(repr(choice.value) for choice in AutoresetMode)
        raise ValueError(f"autoreset_mode {mode!r} is unknown; use one of {choices}") from None
