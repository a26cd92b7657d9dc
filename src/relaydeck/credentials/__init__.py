"""Credentials: access tokens, their kinds, and the permissions each kind grants."""
