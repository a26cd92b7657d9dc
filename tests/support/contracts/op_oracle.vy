# pragma version ^0.4.0
# The gas price oracle of an OP-stack chain after the Isthmus upgrade: the same results from the same L1 values. The
# chain itself charges by the L1 values of its own, so a wrong result here shows as a difference from what is paid.

l1_base_fee: uint256
blob_base_fee: uint256
base_fee_scalar: uint256
blob_base_fee_scalar: uint256
operator_scalar: uint256
operator_constant: uint256

@view
@external
def getOperatorFee(gas_used: uint256) -> uint256:
    return gas_used * self.operator_scalar // 1_000_000 + self.operator_constant

@view
@external
def getL1Fee(data: Bytes[131072]) -> uint256:
    length: uint256 = self._compressed_length(len(data)) + 68  # the signature
    scaled: uint256 = 836_500 * length
    scaled = max(100_000_000, scaled - min(scaled, 42_585_600))
    price: uint256 = 16 * self.base_fee_scalar * self.l1_base_fee + self.blob_base_fee_scalar * self.blob_base_fee
    return scaled * price // 10**12

@view
def _three(at: uint256) -> uint256:
    """Three bytes of the argument, read where it arrived: passing it on would copy it."""
    word: uint256 = convert(slice(msg.data, 68 + at, 3), uint256)
    return (word & 255) << 16 | (word & 65280) | word >> 16

@pure
def _hash(three: uint256) -> uint256:
    return (2654435769 * three >> 19) & 8191

@pure
def _literals(length: uint256) -> uint256:
    rest: uint256 = length % 32
    return 33 * (length // 32) + (rest + 1 if rest != 0 else 0)

@pure
def _match(length: uint256) -> uint256:
    return 3 * ((length - 1) // 262) + (3 if (length - 1) % 262 >= 6 else 2)

@view
def _compressed_length(size: uint256) -> uint256:
    """Of FastLZ, level 1."""
    total: uint256 = 0
    table: uint256[8192] = empty(uint256[8192])
    anchor: uint256 = 0
    end: uint256 = size - 13 if size > 13 else 0
    at: uint256 = 2
    for i: uint256 in range(131072):
        if at >= end:
            break
        earlier: uint256 = 0
        found: bool = False
        for j: uint256 in range(131072):
            three: uint256 = self._three(at)
            key: uint256 = self._hash(three)
            earlier = table[key]
            table[key] = at
            distance: uint256 = at - earlier
            if at >= end:
                break
            at += 1
            if distance <= 8191 and three == self._three(earlier):
                found = True
                break
        if at >= end or not found:
            break
        at -= 1
        if at > anchor:
            total += self._literals(at - anchor)
        length: uint256 = 0
        for j: uint256 in range(131072):
            if at + 3 + length >= end + 9:
                break
            length += 1
            if slice(msg.data, 70 + earlier + length, 1) != slice(msg.data, 70 + at + length, 1):
                break
        total += self._match(length)
        at += length
        table[self._hash(self._three(at))] = at
        table[self._hash(self._three(at + 1))] = at + 1
        at += 2
        anchor = at
    return total + self._literals(size - anchor)
