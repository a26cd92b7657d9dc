"""The described interface and nothing else: its wire types, its envelope and its five operations."""
