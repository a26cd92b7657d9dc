"""The text of an apply file as a document. Imports nothing of the server: remote commands read files too."""

import tomllib
from typing import Any

from relaydeck.provisioning.mistakes import Mistake


def parse_toml(content: bytes) -> dict[str, Any] | Mistake:
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return Mistake("", "it is not UTF-8 text")
    except (ValueError, RecursionError) as error:
        return Mistake("", f"it is not TOML: {error}")
