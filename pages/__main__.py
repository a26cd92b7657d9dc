"""Writes every page."""

from pages import basis

basis.write()
