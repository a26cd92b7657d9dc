"""Relayers in the database. Their columns are the fields of `model.py`, and come with a migration."""

from relaydeck.relayers.model import Relayer
from relaydeck.store.record_table import RecordTable

TABLE = RecordTable("relayers", Relayer)
COLUMNS = TABLE.columns
from_row = TABLE.from_row
without_urls = TABLE.without_sealed
