# pragma version ^0.4.0
# A gas price oracle of an OP-stack chain that offers the upper bound only.

@pure
@external
def getL1FeeUpperBound(unsigned_size: uint256) -> uint256:
    return 1_000 * (unsigned_size + 68)
