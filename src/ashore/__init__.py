"""Ashore lands Kafka topics in lake tables, each record exactly once."""

__version__ = "0.1.0"
