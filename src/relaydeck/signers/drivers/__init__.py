"""Drivers: each one reaches keys in one kind of key system.

`interface` is what a driver provides, `keys` is what the rest of Relaydeck uses, `registry` finds drivers by name. A
driver is imported when a signer of its type is first used: some need an optional package.
"""
