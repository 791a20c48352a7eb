"""IGPO without a trainer: turn rewards and advantages. Pure torch and numpy; nothing here imports verl."""
