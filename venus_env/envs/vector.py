"""Many episodes at once, in one process and on one event loop."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError, ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from venus_env.envs.autoreset import AutoresetSlot, Played, autoreset_mode_of
from venus_env.envs.batch import Batch, Observations, Seeds, merge_infos, seeds_of, stack
from venus_env.envs.portal import portal
from venus_env.envs.ready import ReadyQueue, Work, error_of
from venus_env.envs.research import ResearchEnv
from venus_env.envs.transcript import transcript
from venus_env.protocol.trajectory import Trajectory
from venus_env.session import ResearchSession
from venus_env.tasks.task import Task

T = TypeVar("T")


class ResearchVectorEnv(VectorEnv[Observations, Sequence[str], NDArray[Any]]):
    r"""Many slots of :class:`~venus_env.envs.research.ResearchEnv`, played concurrently in one process.

    ## Description
    All slots share the corpus, the tools and the belief; they wait for their tools side by side on one event loop, and
    what they search for at the same time is searched for in one batch. Hundreds of slots fit one process.

    ```python
    import gymnasium as gym, venus_env
    envs = gym.make_vec("VenusResearch-v0", num_envs=64)
    ```

    What an episode is, what its texts, rewards, endings and infos are, is said in the documentation of `ResearchEnv`.

    ## Lockstep
    `reset` and `step` are those of `gymnasium.vector.SyncVectorEnv` over `ResearchEnv`, with equal results for equal
    seeds: a step waits for the slowest slot.

    ```python
    observations, infos = envs.reset(seed=7)
    for _ in range(1000):
        actions = policy(observations)  # one text per slot
        observations, rewards, terminations, truncations, infos = envs.step(actions)
        done = terminations | truncations
        print("scores of episodes that have ended:", infos["score"][done])
    envs.close()
    ```

    ## Slots That Do Not Wait for One Another
    `send` gives actions to some slots and returns at once; `recv` waits until some slots are ready, and says which
    in `infos["env_id"]`. A slow tool holds up its own slot only. The longest-waiting slots come first.

    ```python
    envs.async_reset(seed=7)
    for _ in range(1000):
        observations, rewards, terminations, truncations, infos = envs.recv(min_ready=8)
        env_ids, done = infos["env_id"], terminations | truncations
        for env_id, score in zip(env_ids[done], infos["score"][done]):
            print(f"slot {env_id} has ended an episode with score {score}")
        actions = policy(observations)  # one text per slot that is ready
        envs.send(actions, env_ids)
    envs.close()  # cancels what is still under way
    ```

    ## What a Policy Reads
    `policy(observations)` sees only the newest replies. A language model reads the conversation of each slot, system
    prompt included: `envs.sessions[i].messages`. In mode `"NextStep"` a slot whose next episode is due (in the last
    step's `terminations | truncations`) ignores its action: send any text, `""` say, and generate nothing for it.

    ## Spaces
    Observations and actions are tuples with one text (or, with `observation="messages"`, one tuple of messages) per
    slot. Rewards are `float64`, terminations and truncations `bool`, of shape `(num_envs,)`; from `recv` all of them
    have one entry per ready slot.

    ## Autoreset
    `autoreset_mode` is that of Gymnasium (https://farama.org/Vector-Autoreset-Mode), an `AutoresetMode` or its value;
    with the value, `envs.spec` can be written as JSON.

    - `"NextStep"`: the step after the end of an episode ignores its action and starts the next one, with reward 0.
    - `"SameStep"`: the step that ends an episode starts the next one; `infos["final_obs"]` and `infos["final_info"]`
      hold the end.
    - `"Disabled"`: `reset(options={"reset_mask": mask})` or `async_reset(env_ids=[…])` starts the next one. With
      `async_reset(env_ids=[i], options={"task_id": id})` for each slot as it becomes free, every task of a list is
      played exactly once; `docs/plugging-in.md` has the loop.

    An episode that cannot be started by an autoreset (its belief failed on the question) is logged, and another task
    is drawn; the third failure in a row is raised. An explicit reset raises at once.

    ## Information
    Laid out by Gymnasium's rules: `infos[key][i]` belongs to slot `i` (from `recv`, to the `i`-th ready slot) and
    `infos["_" + key][i]` tells whether it has the key. `usage` and `reward_terms` are dicts of such arrays. Whether
    `infos["score"]` has None or nan for a slot without score depends on the other slots, by the same rules;
    `infos["score"].astype(float)` always has nan.

    ## Failure and Interruption
    What goes wrong in one slot leaves the others alone: a tool that raises ends its own episode. An action that cannot
    be played is refused before any slot moves. Where a step or reset raises, slots whose results are lost by that need
    a reset. Ctrl-C, in any method, cancels all that is under way, and all slots need a reset.

    The object is to be used from one thread at a time.

    ## Arguments
    - `num_envs`: number of slots.
    - `autoreset_mode`: see above.
    - `max_episode_steps`: steps after which an episode is truncated as by `gymnasium.wrappers.TimeLimit`, with
      `info["end"]` still `running`; no limit if None or -1. `max_turns` is the limit that the agent is told of.
    - all arguments of `ResearchEnv`. In mode `"human"` slots are printed in turn.
    """

    metadata: dict[str, Any] = {**ResearchEnv.metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        max_episode_steps: int | None = None,
        **arguments: Any,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, got {num_envs}")
        if max_episode_steps == -1:
            max_episode_steps = None
        if max_episode_steps is not None and max_episode_steps < 1:
            raise ValueError(f"max_episode_steps must be at least 1, or None for no limit, got {max_episode_steps}")
        mode = autoreset_mode_of(autoreset_mode)
        single = ResearchEnv(**arguments)
        self.source = single.source
        self.num_envs = num_envs
        self.metadata = {**type(self).metadata, "autoreset_mode": mode}
        self.render_mode = single.render_mode
        self.single_observation_space = single.observation_space
        self.single_action_space = single.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._slots = [AutoresetSlot(self.source, mode, max_episode_steps) for _ in range(num_envs)]
        self._queue: ReadyQueue[Played] = ReadyQueue()
        self._sent: dict[int, None] = {}  # slots whose results have not been received, in order of sending

    @property
    def sessions(self) -> tuple[ResearchSession, ...]:
        """The episode of each slot; with ``"SameStep"`` autoreset never one that has ended."""
        return tuple(slot.session for slot in self._slots)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The task of each slot, accepted answers included: for oracles and tests, never for a policy."""
        return tuple(session.task for session in self.sessions)

    @property
    def trajectories(self) -> tuple[Trajectory, ...]:
        """The record of each slot's episode so far."""
        return tuple(session.trajectory() for session in self.sessions)

    @property
    def final_trajectories(self) -> tuple[Trajectory | None, ...]:
        """The record of the last episode that has ended in each slot, None where none has."""
        return tuple(None if slot.final is None else slot.final.trajectory() for slot in self._slots)

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """The random stream of each slot."""
        return tuple(slot.np_random for slot in self._slots)

    @property
    def np_random_seed(self) -> tuple[int | None, ...]:  # type: ignore[override]
        """The seed of each slot's random stream."""
        return tuple(slot.np_random_seed for slot in self._slots)

    def reset(
        self, *, seed: Seeds = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Start an episode in every slot.

        Args:
            seed: An int seeds slot ``i`` with ``seed + i``; a list has one seed, or None, per slot.
            options: ``{"task_id": id}`` chooses the task of all episodes; ``{"reset_mask": mask}``, a bool array of
                shape ``(num_envs,)``, restricts the reset to some slots. The observations of the others are their last.

        Raises:
            ValueError: An option is unknown or wrong.
            EpisodeFailedToStart: The belief failed on a question.
            AlreadyPendingCallError: Slots are still under way after ``send`` or ``async_reset``.
        """
        self._check_idle("reset")
        options = dict(options or {})
        env_ids = self._masked(options.pop("reset_mask")) if "reset_mask" in options else range(self.num_envs)
        self.source.named_task(options)
        seeds = seeds_of(seed, range(self.num_envs))
        played = self._run_all(
            {env_id: partial(self._slots[env_id].reset, seeds[env_id], options) for env_id in env_ids}
        )
        return tuple(slot.observation for slot in self._slots), merge_infos(played.items(), self.num_envs)

    def step(self, actions: Sequence[str]) -> Batch:
        """Play one turn in every slot.

        Args:
            actions: One text per slot; that of a slot whose next episode is due is ignored.

        Raises:
            TypeError: An action is no text. No slot has moved.
            ValueError: There are more or fewer actions than slots. No slot has moved.
            ResetNeeded: A slot has no episode, or its episode has ended. No slot has moved.
            EpisodeFailedToStart: Several episodes in a row could not start.
            AlreadyPendingCallError: Slots are still under way after ``send`` or ``async_reset``.
        """
        self._check_idle("step")
        played = self._run_all(self._turns(actions, range(self.num_envs)))
        return stack(list(played.values()))

    def async_reset(
        self, seed: Seeds = None, options: dict[str, Any] | None = None, env_ids: Iterable[int] | None = None
    ) -> None:
        """Begin to start episodes, and return at once; ``recv`` gives their first observations, with reward 0.

        Args:
            seed: An int seeds slot ``i`` with ``seed + i``; a list has one seed, or None, per slot in ``env_ids``.
            options: ``{"task_id": id}`` chooses the task.
            env_ids: Slots to reset, all if None. Those that are under way have to be received first.
        """
        ids = self._free(range(self.num_envs) if env_ids is None else env_ids, "async_reset")
        self.source.named_task(options)
        seeds = seeds_of(seed, ids)
        self._send({env_id: partial(self._slots[env_id].reset, seeds[env_id], options) for env_id in ids})

    def send(self, actions: Sequence[str], env_ids: Iterable[int]) -> None:
        """Begin to play one turn in some slots, and return at once.

        Args:
            actions: One text per slot in ``env_ids``; that of a slot whose next episode is due is ignored.
            env_ids: The slots. Those that are under way have to be received first.

        Raises:
            TypeError: An action is no text. No slot has moved, here and below.
            ValueError: There are more or fewer actions than slots.
            IndexError: There is no such slot.
            ResetNeeded: A slot has no episode, or its episode has ended.
            AlreadyPendingCallError: A slot is under way.
        """
        self._send(self._turns(actions, self._free(env_ids, "send")))

    def recv(self, min_ready: int = 1, timeout: float | None = None) -> Batch:
        """Wait for slots and take all that are ready, the longest-waiting first.

        Args:
            min_ready: Slots to wait for; all that are under way if these are fewer.
            timeout: Seconds after which fewer will do.

        Returns:
            What ``step`` does, with one entry per ready slot; ``infos["env_id"]`` names the slots.

        Raises:
            TimeoutError: No slot was ready in time. They stay under way.
            NoAsyncCallError: Nothing is under way.
            EpisodeFailedToStart: An episode could not start; results of other slots are kept for the next call.
        """
        self._check_open()
        if min_ready < 1:
            raise ValueError(f"recv: min_ready must be at least 1, got {min_ready}")
        if not self._sent:
            raise NoAsyncCallError("recv: nothing is under way; call async_reset() or send() first", "recv")
        ready = self._on_loop(self._queue.take(min_ready, timeout))
        env_ids = [env_id for env_id, _ in ready]
        for env_id in env_ids:
            del self._sent[env_id]
        played = {env_id: self._result(env_id, task) for env_id, task in ready}
        self._show(played)
        observations, rewards, terminations, truncations, infos = stack(list(played.values()))
        infos |= {"env_id": np.array(env_ids, dtype=np.int64), "_env_id": np.ones(len(env_ids), dtype=np.bool_)}
        return observations, rewards, terminations, truncations, infos

    def render(self) -> tuple[str | None, ...] | None:  # type: ignore[override]
        """Show the conversation of each slot, as ``ResearchEnv.render`` does; None without a render mode."""
        if self.render_mode is None:
            gym.logger.warn("render() does nothing without a render_mode; pass render_mode='ansi', 'html' or 'human'")
            return None
        return tuple(slot.render(self.render_mode) for slot in self._slots)

    def close_extras(self, **kwargs: Any) -> None:
        """Cancel what is under way and forget the episodes; ``close`` calls this once."""
        if self._sent:
            self._stop()
        for slot in self._slots:
            slot.clear()

    def _turns(self, actions: Sequence[str], env_ids: Sequence[int]) -> Work[Played]:
        """Check actions for slots, all of them before any is played."""
        if isinstance(actions, str) or not isinstance(actions, Iterable):
            raise TypeError(f"actions are a sequence with one text per slot; got a single {type(actions).__name__}")
        actions = tuple(actions)
        if len(actions) != len(env_ids):
            raise ValueError(f"there are {len(actions)} actions for {len(env_ids)} slots")
        turns: dict[int, partial[Coroutine[Any, Any, Played]]] = {}
        for env_id, action in zip(env_ids, actions, strict=True):
            try:
                self._slots[env_id].check(action)
            except (TypeError, ResetNeeded) as error:
                raise type(error)(f"slot {env_id}: {error}") from None
            turns[env_id] = partial(self._slots[env_id].step, action)
        return turns

    def _masked(self, mask: Any) -> list[int]:
        """Slots that a reset mask selects."""
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self.num_envs,):
            raise ValueError(f"options['reset_mask'] must be a bool array of shape ({self.num_envs},), got {mask!r}")
        if not mask.any():
            raise ValueError("options['reset_mask'] selects no slot")
        for env_id, slot in enumerate(self._slots):
            if not mask[env_id] and slot.state == "new":
                raise ResetNeeded(f"slot {env_id}: the first reset cannot leave it out")
        return [int(env_id) for env_id in np.flatnonzero(mask)]

    def _free(self, env_ids: Iterable[int], caller: str) -> list[int]:
        """Check that slots exist and are not under way."""
        self._check_open()
        ids = [operator.index(env_id) for env_id in env_ids]
        for env_id in ids:
            if not 0 <= env_id < self.num_envs:
                raise IndexError(f"{caller}: there is no slot {env_id} among {self.num_envs}")
        if len(set(ids)) < len(ids):
            raise ValueError(f"{caller}: env_ids names a slot twice: {ids}")
        pending = [env_id for env_id in ids if env_id in self._sent]
        if pending:
            raise AlreadyPendingCallError(f"{caller}: slots {pending} are under way; recv() them first", caller)
        return ids

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError("the environment is closed; make a new one")

    def _check_idle(self, caller: str) -> None:
        self._check_open()
        if self._sent:
            raise AlreadyPendingCallError(
                f"{caller}: slots {list(self._sent)} are under way after send() or async_reset(); recv() them first",
                caller,
            )

    def _run_all(self, work: Work[Played]) -> dict[int, Played]:
        """Let slots play, wait for all of them, and order the results by slot."""
        done = self._on_loop(self._queue.run_all(work))
        try:
            played = {env_id: self._result(env_id, done[env_id]) for env_id in work}
        except Exception:
            for env_id in work:  # what the others have come to is never heard of
                self._slots[env_id].state = "lost"
            raise
        self._show(played)
        return played

    def _send(self, work: Work[Played]) -> None:
        self._on_loop(self._queue.start(work))
        self._sent.update(dict.fromkeys(work))

    def _on_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            return portal().run(coroutine)
        except Exception:
            raise
        except BaseException:  # Ctrl-C: no step goes on behind the caller's back
            self._stop()
            raise

    def _stop(self) -> None:
        """Cancel all that is under way."""
        self._sent.clear()
        try:
            portal().run(self._queue.cancel())
        finally:
            for slot in self._slots:
                slot.state = "lost"

    def _result(self, env_id: int, task: asyncio.Task[Played]) -> Played:
        error = error_of(task)
        if error is not None:
            error.add_note(f"This was in slot {env_id}.")
            raise error
        return task.result()

    def _show(self, played: Mapping[int, Played]) -> None:
        if self.render_mode == "human":
            for env_id, result in played.items():
                for info in result.infos:
                    messages = info.get("final_info", info)["new_messages"]
                    print(f"[slot {env_id}]\n{transcript(messages)}", flush=True)
