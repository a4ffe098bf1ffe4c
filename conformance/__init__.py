"""The conformance suite: is a verification function lossless, and if not, by how much?"""
