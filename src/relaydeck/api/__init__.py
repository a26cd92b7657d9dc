"""Declares each operation of the admin interface, its query and its records once."""
