# pragma version ^0.4.0
# A stand-in for Scroll's L1 gas price oracle: a price for each byte of the transaction, and a constant.

l1_base_fee: uint256
blob_base_fee: uint256
commit_scalar: uint256
blob_scalar: uint256

@view
@external
def getL1Fee(data: Bytes[131072]) -> uint256:
    per_byte: uint256 = self.blob_scalar * self.blob_base_fee
    return (self.commit_scalar * self.l1_base_fee + len(data) * per_byte) // 10**9
