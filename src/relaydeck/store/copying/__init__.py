"""Copies a whole database, into another one or into a file, and verifies the copy."""
