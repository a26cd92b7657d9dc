"""Writes every page."""

from pages import basis, sentences

basis.write()
sentences.write()
