"""Relayers: their policies and state, and the monitor that checks their nodes."""
