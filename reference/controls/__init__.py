"""Schemes that are not lossless, kept as controls, each with its smallest counterexample."""
