# pragma version ^0.4.0
# A stand-in for Arbitrum's node interface: the gas for L1 grows with the data, and the caller and the value must arrive.

@payable
@external
def gasEstimateComponents(to: address, creation: bool, data: Bytes[131072]) -> (uint64, uint64, uint256, uint256):
    assert msg.value == 1 and msg.sender != empty(address)
    assert creation == (to == empty(address))
    for_l1: uint64 = convert(4_000 + 16 * len(data), uint64)
    return 60_000 + for_l1, for_l1, block.basefee, 20 * 10**9
