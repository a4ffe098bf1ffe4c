"""Couplings of one token: the candidates of a position, and the target row, give the next token.

A coupling is `choose(chance, candidates, draft_row, target_row) -> Choice`. Its token has exactly
the law `target_row`, and it is good when that token is often kept from one of the candidates.
"""
