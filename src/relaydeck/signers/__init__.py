"""Signers: a key, or a reference to one, as one of seven types."""
