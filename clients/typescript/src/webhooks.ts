// Verifies a received webhook by Standard Webhooks 1.0. It needs no connection to the service.

import type { components } from "./admin.js";
import { WebhookError } from "./errors.js";

export interface VerifyOptions {
  /** Seconds between the message's time and now. Default: 300. */
  tolerance?: number;
  /** Seconds since 1970. Default: now. */
  now?: number;
}

type Received = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;
type Event = components["schemas"]["Event"];

/**
 * The event of a message that the holder of `key` sent. `body` is the body as it arrived, before any parsing. Give
 * several keys while you replace one. An empty key, with which anybody can sign, verifies nothing. Throws `WebhookError`.
 */
export async function verifyWebhook(
  headers: Received,
  body: string | Uint8Array,
  key: string | readonly string[],
  { tolerance = 300, now = Date.now() / 1000 }: VerifyOptions = {},
): Promise<Event> {
  const id = header(headers, "webhook-id");
  const timestamp = header(headers, "webhook-timestamp");
  if (!/^\d{1,18}$/.test(timestamp) || !(Math.abs(now - Number(timestamp)) <= tolerance)) {
    throw new WebhookError("the message was not signed at a time near to now");
  }
  const encoder = new TextEncoder();
  const content = typeof body === "string" ? encoder.encode(body) : body;
  const signed = join(encoder.encode(`${id}.${timestamp}.`), content);
  const offered = header(headers, "webhook-signature").split(" ").filter((each) => each.startsWith("v1,"));
  let isGenuine = false;
  for (const each of (typeof key === "string" ? [key] : key).filter(Boolean)) {
    const own = await crypto.subtle.importKey("raw", keyBytes(each), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
    for (const signature of offered) {
      const bytes = base64(signature.slice(3));
      // Web Crypto compares in constant time.
      if (bytes && (await crypto.subtle.verify("HMAC", own, bytes, signed))) isGenuine = true;
    }
  }
  if (!isGenuine) throw new WebhookError("no signature of the message was made with a known key");
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(content)) as Event;
  } catch {
    throw new WebhookError("the message is signed, but its body is not an event");
  }
}

function header(headers: Received, name: string): string {
  const found = headers instanceof Headers ? headers.get(name) : Object.entries(headers).find(([each]) => each.toLowerCase() === name)?.[1];
  if (typeof found !== "string" || !found) throw new WebhookError(`the message does not have exactly one header ${name}`);
  return found;
}

/** A key that starts `whsec_` and decodes is used decoded; any other by its UTF-8 bytes. */
function keyBytes(key: string): Uint8Array<ArrayBuffer> {
  const encoded = key.startsWith("whsec_") ? key.slice(6) : "";
  const decoded = encoded ? base64(encoded + "=".repeat(-encoded.length & 3)) : undefined;
  return decoded ?? join(new TextEncoder().encode(key), new Uint8Array());
}

function base64(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(text) || text.length % 4) return undefined;
  const binary = atob(text);
  return Uint8Array.from(binary, (each) => each.charCodeAt(0));
}

function join(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const joined = new Uint8Array(first.length + second.length);
  joined.set(first);
  joined.set(second, first.length);
  return joined;
}
