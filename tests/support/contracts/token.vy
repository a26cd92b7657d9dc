# pragma version ^0.4.0
# As much of an ERC-20 token as a fee estimate meets.

decimals: public(uint8)
balanceOf: public(HashMap[address, uint256])

@deploy
def __init__(decimals: uint8):
    self.decimals = decimals
    self.balanceOf[msg.sender] = 10**30

@external
def transfer(to: address, amount: uint256) -> bool:
    assert self.balanceOf[msg.sender] >= amount, "not enough tokens"
    self.balanceOf[msg.sender] -= amount
    self.balanceOf[to] += amount
    return True
