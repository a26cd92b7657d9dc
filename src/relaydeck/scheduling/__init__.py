"""Periodic checks of rows, shared by the processes that use one database."""
