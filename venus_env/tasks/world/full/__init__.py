"""The full world: an encyclopedia of real facts, and questions of one to five hops in several kinds.

``place_words`` and ``baseball_words`` are the tables of kinds, relations and wordings; ``places`` and ``baseball``
read the facts; ``graph`` and ``world`` put them together, ``pages`` and ``more_pages`` write them out; ``queries`` says
what a question asks and proves its answer, ``candidates`` draws questions, ``choose`` selects and words them (``ask``);
``build`` writes the files.
"""
