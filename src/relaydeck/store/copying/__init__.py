"""A database copied whole, into another one or into a file, and proved to be the same."""
