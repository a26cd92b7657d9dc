"""What commands on the home check of URLs. An operator on the machine may set any."""

from relaydeck.notifications.webhook_rule import WebhookRule
from relaydeck.provisioning.url_rules import UrlRules
from relaydeck.settings import read_settings


def url_rules() -> UrlRules:
    """From the settings of the command, which may differ from those of the service: the hint holds for both."""
    return UrlRules(webhooks=WebhookRule(read_settings().webhook_allow))
