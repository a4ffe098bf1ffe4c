"""The exact oracle: speculative decoding in rationals, written to be read beside the papers."""
