# pragma version ^0.4.0
# A Uniswap-v3-style pool that has always stood at one tick, with one liquidity.

token0: public(address)
token1: public(address)
tick: int56
liquidity: public(uint128)

@external
def set_pool(token0: address, token1: address, tick: int56, liquidity: uint128):
    self.token0 = token0
    self.token1 = token1
    self.tick = tick
    self.liquidity = liquidity

@view
@external
def observe(seconds_ago: DynArray[uint32, 10]) -> (DynArray[int56, 10], DynArray[uint160, 10]):
    ticks: DynArray[int56, 10] = []
    liquidities: DynArray[uint160, 10] = []
    for ago: uint32 in seconds_ago:
        at: uint256 = block.timestamp - convert(ago, uint256)
        ticks.append(self.tick * convert(at - 1_000_000_000, int56))
        liquidities.append(convert((at << 128) // convert(self.liquidity, uint256), uint160))
    return ticks, liquidities
