"""The worlds of the shipped corpora. Here: the tiny one, a typed graph of facts, its wording, and made-up worlds in it.

``relations`` is the table of kinds, relations and wordings; ``grammar`` renders pages and questions; ``graph`` finds
paths and proves answers unique; ``fresh`` invents worlds; ``build`` writes the embedded corpus and its questions from
registry packages that are needed for that only. The full world, larger and harder, is in ``full``; ``cli`` generates
both.
"""

from venus_env.tasks.world.export import make_task, passages
from venus_env.tasks.world.fresh import made_up_word, random_world
from venus_env.tasks.world.grammar import Entity, Path, Step, ask, render_facts, render_page
from venus_env.tasks.world.graph import World
from venus_env.tasks.world.relations import KINDS, Kind, Relation

__all__ = [
    "KINDS",
    "Entity",
    "Kind",
    "Path",
    "Relation",
    "Step",
    "World",
    "ask",
    "made_up_word",
    "make_task",
    "passages",
    "random_world",
    "render_facts",
    "render_page",
]
