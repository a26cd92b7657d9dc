"""Writes the generated pages of the documentation: `python -m pages`, or `make docs`."""
