"""Recorded episodes for people to look at."""
