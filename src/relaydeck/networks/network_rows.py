"""Networks in the database."""

from relaydeck.networks.model import Network
from relaydeck.store.record_table import RecordTable

TABLE = RecordTable("networks", Network, identity="name")
COLUMNS = TABLE.columns
from_row = TABLE.from_row
without_urls = TABLE.without_sealed
