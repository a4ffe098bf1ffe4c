"""The benchmark of the fast path: `python -m draftproof.fast.bench`, see `__main__`."""
