# pragma version ^0.4.0
# A price feed whose every word the test sets.

decimals: public(uint8)
round_id: uint80
answer: int256
updated_at: uint256
answered_in: uint80

@deploy
def __init__(decimals: uint8):
    self.decimals = decimals

@external
def set_round(round_id: uint80, answer: int256, updated_at: uint256, answered_in: uint80):
    self.round_id = round_id
    self.answer = answer
    self.updated_at = updated_at
    self.answered_in = answered_in

@view
@external
def latestRoundData() -> (uint80, int256, uint256, uint256, uint80):
    return self.round_id, self.answer, self.updated_at, self.updated_at, self.answered_in
