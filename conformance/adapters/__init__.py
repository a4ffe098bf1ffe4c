"""Adapters: subjects behind the one interface of the suite."""
