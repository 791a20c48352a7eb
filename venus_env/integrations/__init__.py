"""Adapters to other trainers. Each module needs the library that it is named after."""
