"""The pages of the console, one module for each part of it."""

from collections.abc import Callable

from relaydeck.console.pages import (
    apply,
    audit,
    estimate,
    events,
    health,
    networks,
    notification,
    notifications,
    overview,
    relayer,
    relayer_forms,
    relayers,
    signers,
    tokens,
)
from relaydeck.console.services import Pages, PageServices

PAGES: tuple[Callable[[PageServices], Pages], ...] = (
    overview.pages,
    relayers.pages,
    relayer.pages,
    relayer_forms.pages,
    signers.pages,
    notifications.pages,
    notification.pages,
    networks.pages,
    events.pages,
    audit.pages,
    health.pages,
    tokens.pages,
    estimate.pages,
    apply.pages,
)
