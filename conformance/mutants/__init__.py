"""Mutants: our verifier with one known fault each, the suite's own exam."""
