"""From the command line's arguments to a policy, and to what identifies it in a header."""

from __future__ import annotations

import argparse
import asyncio
import difflib
import hashlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from venus_env.commands.arguments import positive
from venus_env.commands.errors import CommandError
from venus_env.commands.objects import load_as
from venus_env.policies.base import EpisodePolicies, Policy
from venus_env.policies.human import HumanPolicy
from venus_env.protocol.turns import Message
from venus_env.setting import EnvConfig

_NAMES = ("oracle", "random", "human", "replay", "hf", "openai")
_MODEL_FILES = frozenset({".safetensors", ".bin", ".json", ".jinja", ".model", ".txt"})


@dataclass(frozen=True)
class ChosenPolicy:
    """A policy and what is known about it.

    Attributes:
        policy: The policy.
        spec: What its turns depend on, as a JSON value; runs with another spec do not belong in the same file.
        source: Where it was found, as a JSON value; may differ between runs.
        count_tokens: Length of a text in its tokens; None if it has no tokenizer here.
        concurrency: Most episodes that it can play at a time.
        close: Closes its connections.
    """

    policy: Policy | EpisodePolicies
    spec: dict[str, Any]
    source: dict[str, Any] = field(default_factory=dict)
    count_tokens: Callable[[str], int] | None = None
    concurrency: int | None = None
    close: Callable[[], Awaitable[None]] | None = None


class _PersonAtTerminal:
    """A person who can leave: the end of the input, like Ctrl-C, is the end of the run and not a failed episode."""

    def __init__(self) -> None:
        self._person = HumanPolicy(show=True)
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job, which nobody could leave
            signal.signal(signal.SIGINT, signal.default_int_handler)

    async def act(self, messages: Sequence[Message]) -> str:
        """Read one turn."""
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # so that Ctrl-C interrupts the reading
        try:
            return self._person.act(messages)
        except (EOFError, KeyboardInterrupt):
            pass
        finally:
            signal.signal(signal.SIGINT, handler)
        signal.raise_signal(signal.SIGINT)  # the event loop now cancels everything in an orderly way
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never


def add_policy_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--policy`` and what the single policies need to know."""
    parser.add_argument(
        "--policy",
        required=True,
        metavar="POLICY",
        help=f"{', '.join(_NAMES)}, or module:attribute for a policy (or its class or factory) of your own",
    )
    group = parser.add_argument_group("policies hf, openai and replay")
    group.add_argument(
        "--model", metavar="NAME", help="hf: folder or name of the model; openai: its name on the server"
    )
    group.add_argument("--base-url", metavar="URL", help="openai: address up to the version, http://localhost:8000/v1")
    group.add_argument(
        "--api-key-env",
        metavar="VARIABLE",
        help="openai: environment variable that holds the key (default OPENAI_API_KEY, without a key if it is not set)",
    )
    group.add_argument("--temperature", type=float, metavar="T", help="hf, openai: sampling temperature (default 1)")
    group.add_argument("--top-p", type=float, metavar="P", help="hf, openai: nucleus size (default: hf 1, openai 0.95)")
    group.add_argument("--max-batch", type=positive, default=64, metavar="N", help="hf: turns at a time (default 64)")
    group.add_argument("--device", default="cpu", metavar="NAME", help="hf: where the model runs (default cpu)")
    group.add_argument("--recording", metavar="FILE", help="replay: trajectory file (.jsonl, .jsonl.gz)")


def choose_policy(args: argparse.Namespace, config: EnvConfig) -> ChosenPolicy:
    """Make the policy that ``args`` name.

    Raises:
        CommandError: There is no such policy, or an argument that it needs is missing or wrong.
    """
    name: str = args.policy
    if ":" in name:
        return ChosenPolicy(load_as(name, "--policy", Policy, EpisodePolicies), {"name": name, **_source_hash(name)})
    if name not in _NAMES:
        nearest = difflib.get_close_matches(name, _NAMES, n=1)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
        raise CommandError(f"--policy {name}: give one of {', '.join(_NAMES)}, or module:attribute{hint}")
    if name == "hf":
        return _hf(args, config)
    if name == "openai":
        return _openai(args, config)
    if name == "replay":
        from venus_env.evaluation.trajectory_file import read_trajectories
        from venus_env.policies.replay import ReplayPolicy

        recording = Path(_required(args, "recording"))
        policy = ReplayPolicy(read_trajectories(recording))
        return ChosenPolicy(policy, {"name": name, "recording": _hash([recording])}, {"recording": str(recording)})
    if name == "oracle":
        from venus_env.policies.scripted import OraclePolicy

        return ChosenPolicy(OraclePolicy(seed=args.seed), {"name": name})
    if name == "random":
        from venus_env.policies.random import RandomPolicy

        return ChosenPolicy(RandomPolicy(seed=args.seed), {"name": name})
    return ChosenPolicy(_PersonAtTerminal(), {"name": name}, concurrency=1)


def _source_hash(spec: str) -> dict[str, str]:
    """Hash of the file of a loaded module, so that an edited policy is told from what it was; empty without a file."""
    file = getattr(sys.modules[spec.partition(":")[0]], "__file__", None)
    return {"source_hash": _hash([Path(file)])} if file else {}


def _hf(args: argparse.Namespace, config: EnvConfig) -> ChosenPolicy:
    model: str = _required(args, "model")
    folder = Path(model)
    if not folder.is_dir() and model.startswith((".", "/")):
        raise CommandError(f"--model {model}: there is no such folder")
    from venus_env.policies.hf import HFPolicy

    sampling = _sampling(args, config)
    policy = HFPolicy(model, **sampling, seed=args.seed, max_batch=args.max_batch, device=args.device)
    spec = {"name": "hf", "model": model, **sampling}
    if folder.is_dir():  # its weights, not its path, make the policy
        spec["model"] = _hash(sorted(path for path in folder.iterdir() if path.suffix in _MODEL_FILES))
    return ChosenPolicy(policy, spec, {"model": model, "device": args.device}, count_tokens=policy.count_tokens)


def _openai(args: argparse.Namespace, config: EnvConfig) -> ChosenPolicy:
    from venus_env.policies.openai import OpenAIPolicy

    model, base_url = _required(args, "model"), _required(args, "base_url")
    variable: str = args.api_key_env or "OPENAI_API_KEY"
    key = os.environ.get(variable)
    if key is None and args.api_key_env:
        raise CommandError(f"--api-key-env {variable}: this environment variable is not set")
    if not base_url.startswith(("http://", "https://")):
        raise CommandError(f"--base-url {base_url}: give it with its scheme, such as http://localhost:8000/v1")
    if urlsplit(base_url).username is not None:
        raise CommandError("--base-url holds a user name or password, which would be recorded: use --api-key-env")
    sampling = _sampling(args, config)
    policy = OpenAIPolicy(
        base_url, model, api_key=key, **sampling, seed=args.seed, max_connections=max(1, args.concurrency)
    )
    spec = {"name": "openai", "model": model, **sampling}
    return ChosenPolicy(policy, spec, {"base_url": base_url}, close=policy.aclose)


def _sampling(args: argparse.Namespace, config: EnvConfig) -> dict[str, Any]:
    """Settings of generation; those that are not given stay the policy's own."""
    given = {"temperature": args.temperature, "top_p": args.top_p, "max_turn_tokens": config.max_turn_tokens}
    return {name: value for name, value in given.items() if value is not None}


def _required(args: argparse.Namespace, name: str) -> str:
    value: str | None = getattr(args, name)
    if not value:
        raise CommandError(f"--policy {args.policy} needs --{name.replace('_', '-')}")
    return value


def _hash(paths: Sequence[Path]) -> str:
    """Hash of the names and the content of files."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            digest.update(f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()
