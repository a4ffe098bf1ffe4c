"""Couplings of one token: the candidates of a position, and the target row, give the next token.

A coupling is `choose(chance, candidates, draft_row, target_row) -> token`. It emits a token with
exactly the law `target_row`, and is good when that token is often one of the candidates.
"""
