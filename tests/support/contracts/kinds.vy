# pragma version ^0.4.0
# Calls whose gas is hard to foresee: refunds, prices, blocks, loops, the limit itself.

owner: address
slots: HashMap[uint256, uint256]
accrued_at: uint256
accrued: uint256
count: public(uint256)
notes: DynArray[uint256, 1000]

event Noted:
    value: uint256
    data: Bytes[4096]

@deploy
def __init__():
    self.owner = msg.sender
    for i: uint256 in range(60):
        self.slots[i] = i + 1

@external
def clear(first: uint256, amount: uint256):
    """Refunds: each slot that is emptied gives gas back."""
    for i: uint256 in range(amount, bound=200):
        self.slots[first + i] = 0

@external
def fill(first: uint256, amount: uint256):
    for i: uint256 in range(amount, bound=200):
        self.slots[first + i] = block.number + i + 1

@external
def rewrite(slot: uint256, times: uint256):
    """Dirty writes, which cost little after the first."""
    for i: uint256 in range(times, bound=200):
        self.slots[slot] = i

@external
@payable
def only_at_a_price():
    """Reverts when it is asked without a price, as auctions and relays do."""
    assert tx.gasprice > 0, "no gas price"
    self.count = tx.gasprice

@external
def price_dependent():
    """Costs more at a higher price."""
    for i: uint256 in range(min(tx.gasprice // 100_000_000, 50), bound=50):
        self.slots[1000 + i] = block.number

@external
def accrue():
    """The first call in a block does the work of the block."""
    if self.accrued_at != block.number:
        self.accrued_at = block.number
        self.accrued += 1
        for i: uint256 in range(5):
            self.slots[2000 + i] = block.number

@external
def base_fee_known():
    assert block.basefee > 0, "no base fee"
    self.count += 1

@external
def only_until(deadline: uint256):
    """Reverts when it is too late, as exchanges do."""
    assert block.timestamp <= deadline, "too late"
    self.count += 1

@external
def hungry():
    """Burns a third of the gas that it was given."""
    left: uint256 = msg.gas
    wanted: uint256 = left - left // 3
    n: uint256 = 0
    for i: uint256 in range(1_000_000):
        if msg.gas < wanted:
            break
        n = convert(keccak256(convert(n, bytes32)), uint256) % 7 + 1
    self.count = n

@external
def note(data: Bytes[4096]):
    log Noted(value=len(data), data=data)

@external
def spin(times: uint256) -> uint256:
    n: bytes32 = empty(bytes32)
    for i: uint256 in range(times, bound=5000):
        n = keccak256(n)
    self.count = convert(n, uint256) % 7
    return self.count

@external
def push(amount: uint256):
    for i: uint256 in range(amount, bound=100):
        self.notes.append(i)

@external
def pop(amount: uint256):
    for i: uint256 in range(amount, bound=100):
        self.notes.pop()

@external
@payable
def pay(to: address):
    send(to, msg.value)

@external
@payable
def pay_many(to: DynArray[address, 20]):
    for each: address in to:
        send(each, msg.value // len(to))

@external
def rich_only():
    """Reads the sender's balance."""
    assert msg.sender.balance > 0, "poor"
    self.count += 1

@external
def create_minimal(target: address) -> address:
    return create_minimal_proxy_to(target)

@external
def refuse():
    raise "not today"

@external
@payable
def __default__():
    pass
