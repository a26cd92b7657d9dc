"""Declared state: a file that describes networks, signers, notifications and relayers, made so or printed."""
