// The client of a Relaydeck service. It needs nothing but `fetch` and Web Crypto.
export { Relaydeck, type CallOptions, type Options } from "./client.js";
export { ApiError, RpcError, TransportError, WebhookError } from "./errors.js";
export { verifyWebhook, type VerifyOptions } from "./webhooks.js";
export type { components as Admin } from "./admin.js";
export type { components as Api } from "./api.js";
