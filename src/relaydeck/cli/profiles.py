"""Servers by name, with their tokens: one file that only its owner may read."""

import os
from pathlib import Path

import msgspec

from relaydeck.errors import OperatorError


class StoredProfile(msgspec.Struct, frozen=True):
    url: str
    token: str

    def __repr__(self) -> str:
        return f"StoredProfile(url={self.url!r}, token='***')"


def profiles_path() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "relaydeck" / "profiles.json"


def read_profiles() -> dict[str, StoredProfile]:
    """Raises OperatorError when others may read the file, or it is not ours."""
    path = profiles_path()
    try:
        if path.stat().st_mode & 0o077:
            raise OperatorError(f"{path} contains tokens and others may read it", f"Run 'chmod 600 {path}'.")
        return msgspec.json.decode(path.read_bytes(), type=dict[str, StoredProfile])
    except FileNotFoundError:
        return {}
    except ValueError:
        raise OperatorError(
            f"{path} cannot be read as profiles", "Remove it and run 'relaydeck login' again."
        ) from None


def read_profile(name: str) -> StoredProfile:
    found = read_profiles().get(name)
    if found is None:
        raise OperatorError(f"there is no profile {name!r}", "See 'relaydeck profile list', or run 'relaydeck login'.")
    return found


def save_profile(name: str, profile: StoredProfile) -> None:
    _write(read_profiles() | {name: profile})


def remove_profile(name: str) -> None:
    read_profile(name)
    _write({each: profile for each, profile in read_profiles().items() if each != name})


def _write(profiles: dict[str, StoredProfile]) -> None:
    """Replaces the file in one step: a command that is killed leaves the old one or the new one."""
    path = profiles_path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_suffix(f".{os.getpid()}")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(profiles), indent=2))
    new.replace(path)
