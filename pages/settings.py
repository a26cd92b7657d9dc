"""`docs/settings.md`, which `make docs` writes from the declarations of the settings."""

from dataclasses import Field
from pathlib import Path
from typing import Any

from relaydeck.settings.model import SETTINGS, variable

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"
_HEAD = """# Settings

Relaydeck reads its settings once at the start: from environment variables, and from a file if `--config FILE` or
`RELAYDECK_CONFIG` names one. The environment overrides the file. If a value has the wrong form, Relaydeck does not
start and names it. `serve` does not start either if a setting needs a driver, a file or an extra that is missing.
Relaydeck ignores an unknown `RELAYDECK_*` variable; `serve` and `doctor` warn of it and suggest the nearest known one.

`make docs` writes this page from the declarations in `src/relaydeck/settings/model.py`; a test keeps it current.

## A settings file

The file is TOML. A setting has the name of its variable in lower case, without `RELAYDECK_`:

<!-- settings: -->
```toml
home = "/var/lib/relaydeck"
port = 8080
rate_limit_per_second = 50
webhook_allow = ["10.1.0.0/16", "192.0.2.7"]
database_url = { file = "/run/secrets/database_url" }

[drivers]
provider_c = "vault-kv"
```

- A value is a string or a number; `true` and `false` stand for `on` and `off`. Where a variable takes a list with
  commas, the file takes an array of strings too.
- An unknown name is an error that suggests the nearest known one, and the service does not start.
- The file contains no secret. A password in `database_url` or `limits_url` is refused; put the whole URL in a file of
  its own and refer to it, as `database_url` does above. Other secrets have settings that name a file.
- A relative path starts from the working directory, as in a variable. Use absolute paths for a service.
- Relaydeck reads no settings file that is not named.
- A few settings had other names. Their old names still work, in the environment and in the file; `serve` and `doctor`
  warn of each. Version 0.3.0 ignores them.

## Drivers

In the environment, `RELAYDECK_DRIVER_PROVIDER_C` binds a driver to the signer type `provider_c`, and
`RELAYDECK_DRIVER_PROVIDER_C_ENDPOINT` is the URL of its key system. In the file, one table holds all of them, and comes
after the settings outside it:

<!-- settings: -->
```toml
[drivers]
plain = ""
provider_a_kms = "aws-kms"
provider_c = { driver = "vault-kv", endpoint = "https://vault.example.com:8200" }
```

[Signers](signers.md) describes the drivers. A signer of a type without a driver is stored and listed; its key is not
used.

## Issuers

Each `[[issuers]]` table names an issuer of JSON Web Tokens: one whose [workloads](remote.md#without-a-stored-token)
send them as bearer credentials (with `audience`), or a provider where people [sign in](console.md#single-sign-on) (with
`client_id`). The first rule whose claims all match gives the role; without one there is no access.

<!-- settings: -->
```toml
[[issuers]]
name = "github"
url = "https://token.actions.githubusercontent.com"
audience = ["https://relay.example.com"]

[[issuers.rules]]
claims = { sub = "repo:acme/infra:ref:refs/heads/main" }
role = "editor"
```

| key | default | meaning |
|---|---|---|
| `name` | required | letters, digits and hyphens: what the audit log and the console call it |
| `url` | required | the issuer, exactly as its tokens name it (`iss`). https; http only on this machine |
| `audience` | none | what a token of a workload must be for (`aud`), one of these |
| `client_id` | none | the name of Relaydeck at the provider, for people |
| `client_secret_file` | none: a public client | file with the secret of the client |
| `redirect_uri` | none | of the console, exactly as the provider knows it; ends with `/console/sso/callback` |
| `scopes` | openid, email, profile, offline_access | what a sign-in asks for |
| `person` | `email` | the claim that names a person in the audit log |
| `algorithms` | RS256, ES256 | allowed signatures, of RS, PS and ES with 256, 384 and 512, and EdDSA |
| `clock_skew_seconds` | 30 | how far its clock may differ, at most 300 |
| `jwks_uri` | as its discovery document says | where its keys are |
| `ca_file` | none | certificate authorities to trust for it besides the public ones, in PEM |
| `allow` | none | addresses or CIDR ranges where it may be although they are not public |
| `rules` | required | up to 100, each with `claims` and `role`; for workloads also `scope` |

A claim matches if it is equal, or a list that contains the value. A value that ends with `*` matches a beginning; write
as much of it as you can, with the separator: `repo:acme/*`, not `repo:acme*`.

A rule with a `scope` gives [access to some relayers only](admin.md#access), those that meet each part of it: `relayers`
(identifiers), `networks` (names) and `labels`: `scope = { networks = ["sepolia"], labels = { team = "payments" } }`.
A scope cannot limit owners, and a rule for people cannot have one, because the console shows every record.

## Every setting

| variable | default | meaning |
|---|---|---|
"""


def page() -> str:
    rows = [
        f"| `{variable(s)}` | {s.metadata['shown'] or f'`{_default(s)}`'} | {s.metadata['meaning']} |" for s in SETTINGS
    ]
    return _HEAD + "\n".join([*rows, ""])


def _default(setting: "Field[Any]") -> str:
    value = setting.default
    return f"{value:g}" if isinstance(value, float) else str(value)
