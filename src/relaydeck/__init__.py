"""Relaydeck: manages relayers, their signers and their notifications."""

__version__ = "0.1.0.dev0"
