"""Storages: where tables and logs are kept. See `base` for the seam."""
