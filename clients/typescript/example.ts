// How the types are used with plain `fetch`. `make types` checks this file with tsc; nothing runs it.

import type { components as Admin } from "./admin.js";
import type { components, paths } from "./api.js";

// The part of `fetch` that this example needs: with it, the check needs no types of a browser or of Node.js.
declare function fetch(url: string, init: { headers: Record<string, string> }): Promise<{ json(): Promise<unknown> }>;

type Relayers = components["schemas"]["RelayerListEnvelope"];
type NewSigner = paths["/api/v1/signers"]["post"]["requestBody"]["content"]["application/json"];

export async function listRelayers(url: string, token: string): Promise<Relayers["data"]> {
  const response = await fetch(`${url}/api/v1/relayers`, { headers: { Authorization: `Bearer ${token}` } });
  const body = (await response.json()) as Relayers;
  return body.data;
}

export const signer: NewSigner = { type: "provider_a_kms", config: { key_id: "alias/ops", region: "eu-west-1" } };

// @ts-expect-error: a field that the type does not have
export const mistyped: NewSigner = { type: "provider_a_kms", config: { key: "alias/ops", region: "eu-west-1" } };

export function isPaused(relayer: Admin["schemas"]["Relayer"]): boolean {
  return relayer.paused;
}
