"""Training of deep-research policies: data, SFT, IGPO through verl, evaluation: ``python -m venus_rl.train``."""
