"""Fee models: what the chains of a family charge for a transaction. A network declares its model."""

from relaydeck.fees.models.arbitrum import Arbitrum
from relaydeck.fees.models.base import Charge, FeeModel
from relaydeck.fees.models.gas_limit_charged import GasLimitCharged
from relaydeck.fees.models.op_stack import OpStack
from relaydeck.fees.models.scroll import Scroll
from relaydeck.fees.models.zksync import ZkSync

MODELS: dict[str, FeeModel] = {
    model.name: model for model in (FeeModel(), OpStack(), Arbitrum(), Scroll(), ZkSync(), GasLimitCharged())
}

__all__ = ["MODELS", "Charge", "FeeModel"]
