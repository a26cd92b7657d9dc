"""The Python client of a Relaydeck service: synchronous (`Client`) and asynchronous (`AsyncClient`).

It imports nothing of the server, and no HTTP library before the first client is made.
"""

import msgspec

from relaydeck.client import errors, records
from relaydeck.client.calls import Body, Meta, Page, Pagination
from relaydeck.client.clients import Admin, AsyncAdmin, AsyncClient, Client, FeeEstimate
from relaydeck.client.errors import *  # noqa: F403
from relaydeck.client.exchange import Retry
from relaydeck.client.records import *  # noqa: F403
from relaydeck.client.webhooks import verify_webhook

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncClient",
    "Body",
    "Client",
    "FeeEstimate",
    "Meta",
    "Page",
    "Pagination",
    "Retry",
    "verify_webhook",
]
__all__ += [name for name, each in vars(errors).items() if each.__class__ is type and issubclass(each, Exception)]
__all__ += [name for name, each in vars(records).items() if isinstance(each, msgspec.StructMeta) and name != "Record"]
