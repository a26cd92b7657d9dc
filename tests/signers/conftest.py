from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import pytest_asyncio
from botocore.utils import ContainerMetadataFetcher

from tests.signers.drivers.aws_stand_in import AwsKmsStandIn
from tests.signers.drivers.cdp_stand_in import CdpStandIn
from tests.signers.drivers.google_stand_in import GoogleKmsStandIn
from tests.signers.drivers.local_system import LocalKey
from tests.signers.drivers.system import KeySystem
from tests.signers.drivers.turnkey_stand_in import TurnkeyStandIn
from tests.signers.drivers.vault_system import VaultKvSystem, VaultTransitSystem, prepare
from tests.vault.process import Vault, running

STAND_INS: dict[str, Callable[[], KeySystem]] = {
    "local": LocalKey,
    "aws-kms": AwsKmsStandIn,
    "google-kms": GoogleKmsStandIn,
    "turnkey": TurnkeyStandIn,
    "cdp": CdpStandIn,
}
IN_VAULT: dict[str, Callable[[Vault], KeySystem]] = {"vault-kv": VaultKvSystem, "vault-transit": VaultTransitSystem}


@pytest.fixture(scope="session")
def vault() -> Iterator[Vault]:
    """A real Vault for every test of this process that needs one."""
    with running() as vault:
        prepare(vault)
        yield vault


@pytest_asyncio.fixture
async def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KeySystem]:
    """The key system of the driver that the test is parametrised with."""
    name: str = request.param
    made = IN_VAULT[name](request.getfixturevalue("vault")) if name in IN_VAULT else STAND_INS[name]()
    await made.start()
    monkeypatch.setattr(ContainerMetadataFetcher, "SLEEP_TIME", 0)  # seconds that botocore waits after a failure
    for variable, value in made.environment().items():
        monkeypatch.setenv(variable, value)
    yield made
    await made.stop()
