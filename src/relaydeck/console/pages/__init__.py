"""The pages of the console, one module for each part of it, and the menu that leads to them."""

from relaydeck.console.page_request import Menu
from relaydeck.console.pages import (  # noqa: F401  # registers the pages
    apply,
    audit,
    estimate,
    events,
    find,
    health,
    networks,
    notifications,
    overview,
    proposals,
    relayers,
    runway,
    selected,
    signers,
    tokens,
    view,
)

# Groups of an address and a label.
MENU: Menu = (
    (("", "Overview"), ("/runway", "Runway"), ("/health", "Health")),
    (
        ("/relayers", "Relayers"),
        ("/signers", "Signers"),
        ("/notifications", "Notifications"),
        ("/networks", "Networks"),
    ),
    (("/deliveries", "Deliveries"), ("/events", "Events"), ("/audit", "Audit")),
    (("/estimate", "Fee estimator"), ("/apply", "Apply"), ("/proposals", "Proposals"), ("/tokens", "Tokens")),
)
