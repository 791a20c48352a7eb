"""Every kind of the full world by name."""

from __future__ import annotations

from venus_env.tasks.world.full.baseball_words import BASEBALL_KINDS
from venus_env.tasks.world.full.place_words import PLACE_KINDS
from venus_env.tasks.world.full.schema import Kind

KINDS: dict[str, Kind] = {kind.name: kind for kind in (*PLACE_KINDS, *BASEBALL_KINDS)}
