"""The stages of ``python -m venus_rl.train``: each a function of a run folder, resumable, skipped when finished."""
