"""Lossless verifiers of blocks."""
