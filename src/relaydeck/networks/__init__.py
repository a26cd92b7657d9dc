"""What a network is, and one plug-in per network type (`evm` is the only one)."""
