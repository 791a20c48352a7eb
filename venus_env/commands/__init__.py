"""The commands of ``python -m venus_env``, one module each; their heavy parts load when a command runs."""
