# pragma version ^0.4.0
# Reverts with whatever it is given.

@external
def revert_with(data: Bytes[1024]):
    raw_revert(data)
