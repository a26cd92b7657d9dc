"""The text of an apply file as a document. Imports nothing of the server: remote commands read files too."""

from typing import Any

from relaydeck import bounded_toml
from relaydeck.provisioning.mistakes import Mistake

_MOST_BYTES = 536_870_912


def parse_toml(content: bytes) -> dict[str, Any] | Mistake:
    if len(content) > _MOST_BYTES:
        return Mistake("", f"it has more than {_MOST_BYTES} bytes")
    try:
        return bounded_toml.parse_toml(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return Mistake("", "it is not UTF-8 text")
    except ValueError as error:
        return Mistake("", f"it is not TOML: {error}")
