"""Drivers: each one reaches keys in one kind of key system.

`interface` is what a driver provides, `keys` is what the rest of Relaydeck uses, `registry` finds drivers by name.
Nothing here is imported until a key is needed: starting the service and answering lists cost the same without it.
"""
