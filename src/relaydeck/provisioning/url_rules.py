"""What is checked of the URLs in a document, which depends on the settings and on where the document comes from."""

from typing import NamedTuple

from relaydeck.networks.node_rule import EVERY_NODE, NodeRule
from relaydeck.notifications.webhook_rule import WebhookRule

NODE_FIELDS = {"networks": "rpc_urls", "relayers": "custom_rpc_urls"}  # the fields with URLs of nodes, by resource


class UrlRules(NamedTuple):
    nodes: NodeRule = EVERY_NODE  # refuses URLs
    marks_nodes: bool = False  # new URLs of nodes as set over HTTP
    webhooks: WebhookRule = WebhookRule()  # gives hints about new URLs
    hints_at_unchanged: bool = False  # and about those that a request repeats


NO_RULES = UrlRules()
