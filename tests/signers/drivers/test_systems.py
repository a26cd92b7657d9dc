"""What is particular to one key system."""

import json

import msgspec
import pytest
from botocore.credentials import Credentials
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from relaydeck.secret import Secret
from relaydeck.signers.check import SignerCheck
from relaydeck.signers.drivers.interface import DriverContext
from relaydeck.signers.signer_types import Config, KmsConfig
from tests.signers.drivers.aws_stand_in import AwsKmsStandIn
from tests.signers.drivers.cdp_stand_in import CdpStandIn
from tests.signers.drivers.google_stand_in import GoogleKmsStandIn
from tests.signers.drivers.system import KeySystem
from tests.signers.drivers.test_conformance import check, drivers, keys_for, outcome
from tests.signers.drivers.turnkey_stand_in import TurnkeyStandIn
from tests.signers.drivers.vault_system import VaultKvSystem, VaultTransitSystem
from tests.support.held_loop import Heartbeat
from tests.support.hostile_texts import PRIVATE_KEYS, PUBLIC_KEYS

LONGEST_HOLD_SECONDS = 0.05
CANNOT_SIGN = (
    "the key exists and its public key is config.pubkey, but the transit engine has no secp256k1 keys: "
    "it cannot sign for an Ethereum address"
)


@drivers(["google-kms"])
async def test_google_key_named_by_its_parts(system: GoogleKmsStandIn) -> None:
    parts = {
        "project_id": "demo",
        "location_id": "europe-west3",
        "key_ring_id": "relayers",
        "key_id": "one",
        "version_id": 1,
    }
    async with keys_for(system) as keys:
        assert await outcome(keys, system, system.config(parts)) == "ok"


@drivers(["google-kms"])
@pytest.mark.parametrize(
    "key", [{"name": "projects/p"}, {"key_id": "one"}, {"name": "projects/../locations/l/keyRings/r/cryptoKeys/k"}]
)
async def test_google_key_that_names_nothing(system: GoogleKmsStandIn, key: dict[str, str]) -> None:
    async with keys_for(system) as keys:
        answer = await check(keys, system, system.config(key))
    assert (answer.outcome, answer.explanation, system.requests) == (
        "unusable_config",
        "config.key names no key version of Cloud KMS",
        [],
    )


async def check_held(system: KeySystem, config: Config | None = None) -> tuple[SignerCheck, float]:
    """The check, and for how long it held the event loop; the driver is loaded already."""
    async with keys_for(system) as keys:
        await keys.load(system.signer_type)
        heartbeat = Heartbeat()
        await heartbeat.restart()
        answer = await check(keys, system, config)
        await heartbeat.settle()
        await heartbeat.stop()
    return answer, heartbeat.longest


@drivers(["google-kms"])
@pytest.mark.parametrize("shape", PRIVATE_KEYS)
async def test_google_account_with_a_hostile_key_does_not_hold_the_event_loop(
    system: GoogleKmsStandIn, shape: str
) -> None:
    honest = system.config()
    account = json.loads(bytes(honest.service_account)) | {"private_key": PRIVATE_KEYS[shape]}
    config = msgspec.structs.replace(honest, service_account=msgspec.Raw(json.dumps(account).encode()))
    answer, held = await check_held(system, config)
    assert (answer.outcome, answer.explanation, system.requests) == (
        "unusable_config",
        "config.service_account.private_key is not an RSA key in PEM",
        [],
    )
    assert held < LONGEST_HOLD_SECONDS


@drivers(["cdp"])
@pytest.mark.parametrize("shape", PRIVATE_KEYS)
async def test_cdp_with_a_hostile_api_key_does_not_hold_the_event_loop(system: CdpStandIn, shape: str) -> None:
    answer, held = await check_held(system, system.config(api_key_secret=PRIVATE_KEYS[shape]))
    assert (answer.outcome, answer.explanation, system.requests) == (
        "unusable_config",
        "config.api_key_secret is neither a P-256 key in PEM nor an Ed25519 key in base64",
        [],
    )
    assert held < LONGEST_HOLD_SECONDS


@drivers(["vault-transit"])
@pytest.mark.parametrize("shape", PUBLIC_KEYS)
async def test_vault_transit_with_a_hostile_public_key_does_not_hold_the_event_loop(
    system: VaultTransitSystem, shape: str
) -> None:
    answer, held = await check_held(system, system.config(pubkey=PUBLIC_KEYS[shape]))
    assert (answer.outcome, answer.explanation) == (
        "unusable_config",
        "config.pubkey is not a public key in PEM, base64 or hexadecimal",
    )
    assert held < LONGEST_HOLD_SECONDS


@drivers(["aws-kms"])
@pytest.mark.parametrize(
    ("shape", "expected"),
    [("a large Diffie-Hellman key", "does_not_verify"), ("a Diffie-Hellman key", "wrong_key_kind")],
)
async def test_a_hostile_key_in_an_answer_does_not_hold_the_event_loop(
    system: AwsKmsStandIn, shape: str, expected: str
) -> None:
    system.key.der = PUBLIC_KEYS[shape].encode()
    answer, held = await check_held(system)
    assert answer.outcome == expected
    assert held < LONGEST_HOLD_SECONDS


@drivers(["google-kms"])
@pytest.mark.parametrize("sends_numbers", [False, True])
async def test_google_answer_that_was_damaged_on_the_way(system: GoogleKmsStandIn, sends_numbers: bool) -> None:
    system.damaged, system.sends_numbers = True, sends_numbers
    async with keys_for(system) as keys:
        assert (await check(keys, system)).explanation == "the checksum of Cloud KMS's answer does not hold"


@drivers(["google-kms"])
async def test_google_token_that_was_revoked_is_replaced(system: GoogleKmsStandIn) -> None:
    async with keys_for(system) as keys:
        assert await outcome(keys, system) == "ok"
        system.tokens.clear()
        assert await outcome(keys, system) == "ok"
    assert system.requests.count("POST /token") == 2


@drivers(["aws-kms"])
async def test_aws_without_credentials(system: AwsKmsStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    async with keys_for(system) as keys:
        answer = await check(keys, system)
    assert (answer.outcome, answer.explanation) == (
        "access_denied",
        "the AWS credential chain finds no credentials in this environment",
    )


@pytest.mark.parametrize(
    ("region", "url"),
    [
        ("eu-central-1", "https://kms.eu-central-1.amazonaws.com/"),
        ("cn-north-1", "https://kms.cn-north-1.amazonaws.com.cn/"),
    ],
)
async def test_aws_endpoint_is_that_of_the_region(region: str, url: str) -> None:
    from relaydeck.signers.drivers.aws_kms import AwsKmsDriver

    driver = AwsKmsDriver(DriverContext(None, None, lambda: 0.0, None))  # type: ignore[arg-type]
    assert driver._url(region) == url
    await driver.close()


@drivers(["aws-kms"])
async def test_aws_credentials_that_were_replaced_at_their_source(system: AwsKmsStandIn) -> None:
    async with keys_for(system) as keys:
        assert await outcome(keys, system) == "ok"
        system.issued.clear()
        assert [await outcome(keys, system) for _ in range(2)] == ["access_denied", "ok"]


@drivers(["aws-kms"])
async def test_aws_key_in_another_region(system: AwsKmsStandIn) -> None:
    async with keys_for(system) as keys:
        config = KmsConfig(key_id=system.config().key_id, region="us-east-1")
        assert await outcome(keys, system, config) == "access_denied"  # the stand-in serves one region


@drivers(["aws-kms"])
@pytest.mark.parametrize("names", [["KeySpec"], ["CustomerMasterKeySpec"], ["CustomerMasterKeySpec", "KeySpec"]])
async def test_aws_key_spec_under_either_name(system: AwsKmsStandIn, names: list[str]) -> None:
    system.spec_names = names
    async with keys_for(system) as keys:
        assert await outcome(keys, system) == "ok"
        assert await outcome(keys, system, system.key_of_another_kind()) == "wrong_key_kind"


@drivers(["aws-kms"])
async def test_aws_key_without_a_spec(system: AwsKmsStandIn) -> None:
    system.spec_names = []
    async with keys_for(system) as keys:
        assert await outcome(keys, system) == "wrong_key_kind"


async def explanation(system: KeySystem, config: Config | None = None) -> str:
    """Why access is denied."""
    async with keys_for(system) as keys:
        answer = await check(keys, system, config)
    assert answer.outcome == "access_denied"
    return answer.explanation


@drivers(["aws-kms"])
@pytest.mark.parametrize(
    ("access_key", "secret_key", "expected"),
    [
        (
            "AKIAUNKNOWN",
            "right",
            "AWS does not know the access key: it was deleted or deactivated, or is of another partition",
        ),
        (
            "AKIAKNOWN",
            "wrong",
            "AWS does not accept the signature: the secret access key is not that of the access key, or this machine's"
            " clock is wrong",
        ),
        (
            "AKIAKNOWN",
            "right",
            "AWS knows these credentials, but no policy allows them what they need of this key: kms:GetPublicKey and"
            " kms:Sign for a signer, kms:Encrypt and kms:Decrypt for the master key",
        ),
    ],
)
async def test_aws_tells_why_access_is_denied(
    system: AwsKmsStandIn, monkeypatch: pytest.MonkeyPatch, access_key: str, secret_key: str, expected: str
) -> None:
    system.issued["AKIAKNOWN"] = Credentials("AKIAKNOWN", "right", "")
    system.denied = True
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret_key)
    assert await explanation(system) == expected


@drivers(["google-kms"])
async def test_google_tells_why_access_is_denied(system: GoogleKmsStandIn) -> None:
    account = json.loads(bytes(system.config().service_account))
    other = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )

    def changed(**fields: str) -> Config:
        raw = msgspec.Raw(json.dumps(account | fields).encode())
        return msgspec.structs.replace(system.config(), service_account=raw)

    unknown = await explanation(system, changed(client_email="nobody@demo.iam.gserviceaccount.com"))
    wrong = await explanation(system, changed(private_key=other.decode()))
    system.permitted = False
    forbidden = await explanation(system)
    system.granted = False
    late = await explanation(system)
    assert [unknown, wrong, forbidden, late] == [
        "Google does not know the service account: its client_email is wrong, or it was deleted",
        "the private_key is not, or no longer, a key of the service account",
        "Cloud KMS knows the service account, but it lacks the permission to use this key: grant it"
        " roles/cloudkms.signerVerifier, or for the master key roles/cloudkms.cryptoKeyEncrypterDecrypter",
        "Google does not accept the time of the request: this machine's clock is wrong",
    ]


@drivers(["turnkey"])
async def test_turnkey_tells_why_access_is_denied(system: TurnkeyStandIn) -> None:
    system.permitted = False
    forbidden = await explanation(system)
    await system.revoke_access()
    assert [forbidden, await explanation(system)] == [
        "Turnkey knows this API key, but no policy lets its user use the key",
        "Turnkey does not accept this API key in this organization",
    ]


@drivers(["cdp"])
async def test_cdp_tells_why_access_is_denied(system: CdpStandIn) -> None:
    system.permitted = False
    forbidden = await explanation(system)
    await system.revoke_access()
    assert [forbidden, await explanation(system)] == [
        "the platform knows this API key, but its permissions or the account's policy forbid the use",
        "the platform does not accept this API key or this wallet secret",
    ]


@drivers(["vault-kv", "vault-transit"])
async def test_vault_tells_why_access_is_denied(system: VaultKvSystem | VaultTransitSystem) -> None:
    """The real Vault: it does not tell a wrong role_id from a wrong secret_id."""
    role, config = f"auth/approle/role/{system.name}", system.config()
    wrong = [
        await explanation(system, msgspec.structs.replace(config, role_id=Secret("wrong"))),
        await explanation(system, msgspec.structs.replace(config, secret_id=Secret("wrong"))),
    ]
    system.vault.call("POST", role, {"token_policies": "default"})
    forbidden = await explanation(system)
    system.vault.call("POST", role, {"secret_id_bound_cidrs": "10.0.0.0/8"})
    elsewhere = await explanation(system)
    system.vault.call("DELETE", "sys/auth/approle")
    try:
        disabled = await explanation(system)
    finally:
        system.vault.call("POST", "sys/auth/approle", {"type": "approle"})
    assert [*wrong, forbidden, elsewhere, disabled] == [
        *[
            "Vault does not accept the role_id with the secret_id: one of them is wrong, or the secret_id has expired"
            " or is used up"
        ]
        * 2,
        "Vault accepts the AppRole, but its policies do not permit this use of the key",
        "Vault accepts this AppRole from other addresses only: see the CIDR restrictions of the role",
        "Vault permits no AppRole login: nothing is enabled at auth/approle, or not in this namespace",
    ]


@drivers(["turnkey"])
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("ACTIVITY_STATUS_CONSENSUS_NEEDED", "access_denied"),
        ("ACTIVITY_STATUS_REJECTED", "access_denied"),
        ("ACTIVITY_STATUS_FAILED", "access_denied"),
        ("ACTIVITY_STATUS_PENDING", "does_not_verify"),
    ],
)
async def test_turnkey_activity_that_is_not_completed(system: TurnkeyStandIn, status: str, expected: str) -> None:
    system.activity_status = status
    async with keys_for(system) as keys:
        assert await outcome(keys, system) == expected


@drivers(["turnkey"])
async def test_turnkey_key_that_is_not_the_signers(system: TurnkeyStandIn) -> None:
    async with keys_for(system) as keys:
        config = system.config()
        system.key = system.other_key
        answer = await check(keys, system, config)
    assert (answer.outcome, answer.explanation) == (
        "does_not_verify",
        "the public key of the key in Turnkey is not config.public_key",
    )


@drivers(["cdp"])
async def test_cdp_with_an_api_key_on_p256(system: CdpStandIn) -> None:
    async with keys_for(system) as keys:
        assert await outcome(keys, system, system.with_ec_api_key()) == "ok"


@drivers(["vault-kv"])
async def test_vault_engine_of_version_1(system: VaultKvSystem) -> None:
    system.vault.call("POST", f"kv1/relayers/{system.name}/one", {"value": system.key.secret})
    async with keys_for(system) as keys:
        answer = await check(keys, system, system.config(mount_point="kv1"))
    assert (answer.outcome, answer.address) == ("ok", system.key.address)


@drivers(["vault-kv"])
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"anything": "KEY"}, "ok"),
        ({"value": "KEY", "owner": "ops"}, "ok"),
        ({"key": "KEY", "owner": "ops"}, "key_not_found"),
    ],
)
async def test_vault_secret_holds_the_key_alone_or_as_its_value(
    system: VaultKvSystem, fields: dict[str, str], expected: str
) -> None:
    system.write("fields", {name: text.replace("KEY", system.key.secret) for name, text in fields.items()})
    async with keys_for(system) as keys:
        assert await outcome(keys, system, system.config("fields")) == expected


@drivers(["vault-kv"])
async def test_vault_namespace_is_sent(system: VaultKvSystem) -> None:
    """Namespaces are part of Vault Enterprise: what arrives is what can be tested here."""
    async with keys_for(system) as keys:
        await check(keys, system, system.config(namespace="team-a"))
    assert {headers.get("X-Vault-Namespace") for headers in system.headers} == {"team-a"}


@drivers(["vault-kv"])
@pytest.mark.parametrize("name", ["../../sys/mounts", "", "a//b", "."])
async def test_vault_path_that_climbs_out_is_not_sent(system: VaultKvSystem, name: str) -> None:
    async with keys_for(system) as keys:
        answer = await check(keys, system, msgspec.structs.replace(system.config(), key_name=name))
    assert (answer.outcome, system.requests) == ("unusable_config", [])


@drivers(["vault-kv"])
async def test_vault_token_that_was_revoked_is_replaced(system: VaultKvSystem) -> None:
    async with keys_for(system) as keys:
        assert await outcome(keys, system) == "ok"
        system.revoke_tokens()
        assert await outcome(keys, system) == "ok"
    assert system.requests.count("POST /v1/auth/approle/login") == 2


@drivers(["vault-kv"])
async def test_vault_itself_throttles(system: VaultKvSystem) -> None:
    """A rate limit that Vault enforces, not the proxy."""
    system.vault.call("POST", "sys/quotas/rate-limit/tests", {"path": "secret/", "rate": 0.001, "interval": "1h"})
    try:
        async with keys_for(system) as keys:
            outcomes = [await outcome(keys, system) for _ in range(2)]
    finally:
        system.vault.call("DELETE", "sys/quotas/rate-limit/tests")
    assert outcomes[-1] == "throttled"


@drivers(["vault-transit"])
@pytest.mark.parametrize("name", ["one", "ed"])
async def test_vault_transit_key_is_verified_and_cannot_sign(system: VaultTransitSystem, name: str) -> None:
    async with keys_for(system) as keys:
        answer = await check(keys, system, system.config(name))
    assert (answer.outcome, answer.explanation, answer.address) == ("cannot_sign", CANNOT_SIGN, None)


@drivers(["vault-transit"])
async def test_vault_transit_has_no_key_for_ethereum(system: VaultTransitSystem) -> None:
    """Why the driver cannot sign: the real engine refuses to make such a key."""
    import httpx

    with pytest.raises(httpx.HTTPStatusError) as refusal:
        system.vault.call("POST", f"transit/keys/{system.name}-k1", {"type": "ecdsa-secp256k1"})
    assert "unknown key type" in refusal.value.response.text


@drivers(["vault-transit"])
async def test_vault_transit_key_that_is_not_the_signers(system: VaultTransitSystem) -> None:
    async with keys_for(system) as keys:
        answer = await check(keys, system, system.config("one", system.public_key("ed")))
    assert (answer.outcome, answer.explanation) == (
        "does_not_verify",
        "the public key of the key in Vault is not config.pubkey",
    )
