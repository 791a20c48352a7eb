"""Supervised fine-tuning on tokenised trajectories."""
