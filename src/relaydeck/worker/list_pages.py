"""The two lists of the contract, in memory: their items, and the pages rendered of them."""

from relaydeck.contract.lists import Fill, Pages
from relaydeck.contract.views import relayer_encoder, signer_encoder
from relaydeck.relayers import relayer_rows
from relaydeck.settings import Settings
from relaydeck.signers import signer_rows
from relaydeck.store.listing import Listing
from relaydeck.store.open_store import Store
from relaydeck.worker.reports import Reports


class ListPages:
    def __init__(self, settings: Settings, store: Store, reports: Reports) -> None:
        database, vault = store
        self._max_per_page = settings.max_per_page
        self.shows_more_of_signers = settings.signer_config == "non_secret"
        encode_signer = signer_encoder(widened=self.shows_more_of_signers)
        encode_relayer = relayer_encoder(vault, reports.damage)
        remote = database.remote
        self.signers = Listing("signers", signer_rows.LIST_COLUMNS, encode_signer, database, whole=remote)
        self.relayers = Listing("relayers", relayer_rows.COLUMNS, encode_relayer, database, whole=remote)

    def render_with(self, fill: Fill) -> None:
        """`fill` loads the items of a page that are not in memory."""
        self.signer_pages = Pages(self.signers, fill, self._max_per_page)
        self.relayer_pages = Pages(self.relayers, fill, self._max_per_page)

    def forget(self) -> None:
        self.signer_pages.forget()
        self.relayer_pages.forget()
