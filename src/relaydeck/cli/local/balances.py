"""The balances of relayers and how long they last, on the home."""

import time

from relaydeck.admin.views import json_values
from relaydeck.cli.backend import Json
from relaydeck.cli.local.store import existing_store
from relaydeck.quantities import parse_span
from relaydeck.relayers.balance_history import choose_range, read_history
from relaydeck.relayers.runway_report import read_first, read_runway
from relaydeck.settings import read_settings


class LocalBalances:
    def runway(self, relayer_id: str) -> Json:
        hours = read_settings().runway_warn_hours
        with existing_store() as store:
            return json_values(read_runway(store.database.read, relayer_id, warn_hours=hours, now=int(time.time())))

    def first_runways(self, count: int) -> list[Json]:
        hours = read_settings().runway_warn_hours
        with existing_store() as store:
            found = read_first(store.database.read, count, warn_hours=hours, now=int(time.time()))
        return [json_values(each) for each in found]

    def balances(self, relayer_id: str, seconds: int, step: str) -> Json:
        now = int(time.time())
        shown = choose_range(now - seconds, now, parse_span(step), now)
        with existing_store() as store:
            return json_values(read_history(store.database.read, relayer_id, shown))
