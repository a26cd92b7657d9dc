"""The pages of the console, one module for each part of it."""

from collections.abc import Callable

from relaydeck.console.pages import (
    apply,
    audit,
    estimate,
    events,
    health,
    networks,
    notifications,
    overview,
    relayers,
    signers,
    tokens,
)
from relaydeck.console.services import Pages, PageServices

PAGES: tuple[Callable[[PageServices], Pages], ...] = (
    overview.pages,
    relayers.pages,
    signers.pages,
    notifications.pages,
    networks.pages,
    events.pages,
    audit.pages,
    health.pages,
    tokens.pages,
    estimate.pages,
    apply.pages,
)
