"""IGPO without a trainer: turn rewards, advantages, answer probes. Pure torch and numpy; nothing here imports verl."""
