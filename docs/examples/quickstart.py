"""A subject to start from: token-by-token verification in numpy, one block at a time.

Run it with ``draftproof check python:quickstart:factory``, then put your own function in.
"""

import numpy as np

DECLARATION = {
    "name": "quickstart",
    "version": "1",
    "schemes": ["token_by_token"],
    "drafts": [1, 1],
    "length": [0, 16],
    "uniforms": True,
    "rows": "probabilities",
    "bonus": "drawn",
    "lossless": True,
}


class TokenByToken:
    declaration = DECLARATION

    def verify(self, batch):
        blocks = len(batch.drafts)
        results = [self._block(batch, b) for b in range(blocks)]
        return {
            "accepted_length": np.array([accepted for accepted, _ in results]),
            "path": np.zeros(blocks, dtype=np.int64),
            "next_token": np.array([token for _, token in results]),
        }

    def _block(self, batch, b):
        length = batch.drafts.shape[2]
        for depth in range(length):
            p, q = batch.draft_rows[b, 0, depth], batch.target_rows[b, 0, depth]
            token = batch.drafts[b, 0, depth]
            if not batch.accept_uniforms[b, 0, depth] * p[token] < q[token]:
                return depth, draw(np.maximum(q - p, 0), batch.token_uniform[b])
        return length, draw(batch.target_rows[b, 0, length], batch.token_uniform[b])


def draw(weights, uniform):
    cumulative = np.cumsum(weights)
    if not cumulative[-1] > 0:  # also for NaN
        raise ValueError(f"weights sum to {cumulative[-1]}, not to a positive number")
    return int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"))


def factory():
    return TokenByToken()
