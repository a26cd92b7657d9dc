"""The five operations of the described interface, as routes."""

from relaydeck.contract.create_signer import CreateSigner
from relaydeck.contract.lists import Pages
from relaydeck.contract.routes import ContractRoutes
from relaydeck.contract.rpc import RelayerRpc
from relaydeck.contract.update_notification import UpdateNotification
from relaydeck.credentials.caller_writer import CallerWriter
from relaydeck.http.pipeline import Route
from relaydeck.notifications.webhook_rule import WebhookRule
from relaydeck.store.audit import AuditLog


def contract_routes(
    *,
    signers: Pages,
    relayers: Pages,
    rpc: RelayerRpc,
    writer: CallerWriter,
    audit: AuditLog,
    webhooks: WebhookRule,
    widened_signer_config: bool,
) -> ContractRoutes:
    create_signer = CreateSigner(writer, audit, widened=widened_signer_config)
    update_notification = UpdateNotification(writer, audit, webhooks)
    return ContractRoutes(
        create_signer=Route("create_signer", "call", answer=create_signer),
        list_signers=Route("list_signers", "list", page=signers.page),
        update_notification=Route("update_notification", "call", answer=update_notification),
        list_relayers=Route("list_relayers", "list", limited=True, page=relayers.page),
        relayer_rpc=Route("relayer_rpc", "call", limited=True, answer=rpc),
    )
