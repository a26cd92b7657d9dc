"""Scroll: the compressed data of the signed transaction is charged, at prices that an oracle of the chain publishes.

Since the Galileo upgrade the chain charges by the size that zstd compresses the transaction to; the oracle's own
`getL1Fee` does not compress. Source: scroll-tech/go-ethereum, `calculateEncodedL1DataFeeGalileo` in
rollup/fees/rollup_fee.go, and the parameters of zstd in scroll-tech/da-codec, libzstd/encoder-standard/src/lib.rs.
"""

import sys
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from relaydeck.fees.gas import Gas
from relaydeck.fees.models.base import Charge, FeeModel, contract_question, returned
from relaydeck.networks.evm.questions import Question
from relaydeck.networks.evm.transaction import Transaction

ORACLE = "0x5300000000000000000000000000000000000002"
PRICES = (
    "0x519b4bd3",  # l1BaseFee()
    "0x84189161",  # l1BlobBaseFee()
    "0x23e524ac",  # commitScalar(), which is that of the execution
    "0x6a5e67e5",  # blobScalar()
    "0x6112d6db",  # penaltyFactor()
)
_PRECISION = 10**9
_MOST = 2**64 - 1
# The parity and two numbers of 32 bytes, as RLP encodes them: as hard to compress as a real one.
SIGNATURE = b"\x01" + b"".join(b"\xa0" + sha256(name).digest() for name in (b"r", b"s"))
# Window log; no compression of literals; no magic number: as enum ZSTD_cParameter numbers them.
_PARAMETERS = {101: 22, 1002: 2, 10: 1}


class Scroll(FeeModel):
    name = "scroll"

    def questions(self, transaction: Transaction, call: dict[str, Any]) -> Sequence[Question[Any]]:
        return [contract_question(ORACLE, each) for each in PRICES]

    def charge(self, transaction: Transaction, gas: Gas, answers: Sequence[Any], margin: int = 0) -> Charge:
        prices = [returned(answer, 1, f"the L1 gas price oracle at {ORACLE}")[0] for answer in answers]
        data = transaction.signed or transaction.unsigned + SIGNATURE
        size = compressed_size(data)
        return Charge(
            gas.used,
            {"l1_data_fee_wei": data_fee(size, *prices)},
            {"data_bytes": len(data), "compressed_bytes": size},
        )


def data_fee(size: int, base_fee: int, blob_base_fee: int, exec_scalar: int, blob_scalar: int, penalty: int) -> int:
    whole = (exec_scalar * base_fee + blob_scalar * blob_base_fee) * size
    return min(_MOST, (whole + whole * size // (penalty or 1)) // _PRECISION)


def compressed_size(data: bytes) -> int:
    """Never more than the size itself."""
    if sys.version_info >= (3, 14):
        from compression import zstd  # loaded only for networks with this model
    else:
        from backports import zstd
    return min(len(data), len(zstd.compress(data, options=_PARAMETERS)))
