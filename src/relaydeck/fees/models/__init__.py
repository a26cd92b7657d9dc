"""Fee models: what the chains of a family charge for a transaction. A network declares its model."""

from relaydeck.fees.models.arbitrum import Arbitrum
from relaydeck.fees.models.base import Charge, FeeModel, GasLimitCharged
from relaydeck.fees.models.celo import Celo
from relaydeck.fees.models.linea import Linea
from relaydeck.fees.models.mantle import Mantle
from relaydeck.fees.models.op_stack import OpStack
from relaydeck.fees.models.scroll import Scroll
from relaydeck.fees.models.zksync import ZkSync

_ALL = (FeeModel(), OpStack(), Mantle(), Celo(), Arbitrum(), Scroll(), Linea(), ZkSync(), GasLimitCharged())
MODELS: dict[str, FeeModel] = {model.name: model for model in _ALL}

__all__ = ["MODELS", "Charge", "FeeModel"]
