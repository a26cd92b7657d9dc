// Calls of both interfaces: which operations there are, what they take and what they return follows from the OpenAPI
// documents of the service.

import type { operations as AdminOperations } from "./admin.js";
import type { operations as ApiOperations } from "./api.js";
import { ApiError, RpcError, TransportError } from "./errors.js";
import { ADMIN, API, type Entry } from "./operations.js";

type Content<T> = T extends { content: infer C } ? C[keyof C] : never;
type Success<O> = O extends { responses: infer R } ? Content<R[Extract<keyof R, 200 | 201 | 202>]> : never;
type Parameter<O, K extends string> = O extends { parameters: { [P in K]?: infer V } } ? NonNullable<V> : never;
type Given<O, K extends "path" | "query"> = [Parameter<O, K>] extends [never] ? unknown
  : O extends { parameters: { [P in K]: object } } ? { [P in K]: Parameter<O, K> } : { [P in K]?: Parameter<O, K> };
type Body<O> = O extends { requestBody: infer B } ? { body: Content<B> }
  : O extends { requestBody?: infer B } ? { body?: Content<NonNullable<B>> } : unknown;

export interface CallOptions {
  /** Sent as `If-Match`: the change is refused if the record changed since. */
  ifMatch?: string;
  /** Of a POST under `/admin/v1`. Without it, the client makes one. */
  idempotencyKey?: string;
  signal?: AbortSignal;
}

export type Options<O> = Given<O, "path"> & Given<O, "query"> & Body<O> & CallOptions;
type Arguments<O> = Record<never, never> extends Options<O> ? [options?: Options<O>] : [options: Options<O>];

export interface Settings {
  token: string;
  /** How often a call is tried in all. Default: 4. */
  attempts?: number;
  /** Milliseconds that one attempt may take. Default: 30,000. */
  timeout?: number;
  /** Milliseconds of the first pause between two attempts; later ones double, up to 5,000. Default: 100. */
  firstPause?: number;
  /** Another `fetch`, for a proxy or certificates of your own. */
  fetch?: typeof fetch;
}

const LONGEST_PAUSE = 5_000;
const LONGEST_WAIT_SECONDS = 30;
const MOST_RESPONSE_BYTES = 64 * 1024 * 1024; // as the Python client

const DELETED = { data: null, error: "", metadata: { logs: [], traces: [] }, success: true, changed: true };

interface Untyped extends CallOptions {
  path?: Record<string, string>;
  query?: Record<string, unknown>;
  body?: unknown;
}

interface Attempt {
  response?: { status: number; headers: Headers; text: string };
  failure?: TransportError | ApiError;
}

/**
 * One service, and a token for it.
 *
 *     const relaydeck = new Relaydeck("http://127.0.0.1:8080", { token });
 *     const { data } = await relaydeck.api("listRelayers", { query: { per_page: 50 } });
 */
export class Relaydeck {
  readonly #base: string;
  readonly #token: string;
  readonly #settings: Required<Omit<Settings, "token">>;
  #revision = 0; // of the newest write of this client: later reads are answered with nothing older

  constructor(url: string, settings: Settings) {
    const address = new URL(url);
    if (!/^https?:$/.test(address.protocol) || address.username || address.password || address.search || address.hash) {
      throw new TypeError("the URL of the service must be http or https, without a user name, query or fragment");
    }
    if (!/^[!-~]+$/.test(settings.token)) {
      throw new TypeError("the token is empty or contains a character that no token has, such as a line break");
    }
    this.#base = address.origin + address.pathname.replace(/\/+$/, "");
    this.#token = settings.token;
    const defaults = { attempts: 4, timeout: 30_000, firstPause: 100, fetch: globalThis.fetch.bind(globalThis) };
    const given = Object.entries(settings).filter(([, value]) => value !== undefined); // which would replace a default
    this.#settings = { ...defaults, ...Object.fromEntries(given) };
  }

  /** An operation of `/api/v1`. */
  api<N extends keyof typeof API & keyof ApiOperations>(
    name: N,
    ...[options]: Arguments<ApiOperations[N]>
  ): Promise<Success<ApiOperations[N]>> {
    return this.#call(API[name], (options ?? {}) as Untyped) as Promise<Success<ApiOperations[N]>>;
  }

  /** An operation of `/admin/v1`. */
  admin<N extends keyof typeof ADMIN & keyof AdminOperations>(
    name: N,
    ...[options]: Arguments<AdminOperations[N]>
  ): Promise<Success<AdminOperations[N]>> {
    return this.#call(ADMIN[name], (options ?? {}) as Untyped) as Promise<Success<AdminOperations[N]>>;
  }

  /** What a transaction costs. Throws `RpcError` where the service cannot tell. */
  async feeEstimate(
    relayer: string,
    params: { fee_token: string; network: string; transaction: string },
  ): Promise<{ conversion_rate: string; estimated_fee: string; method: string }> {
    const body = { jsonrpc: "2.0" as const, id: 1, method: "feeEstimate", params };
    const entry: Entry = ["POST", "/api/v1/relayers/{relayer_id}/rpc", "read"];
    const found = (await this.#call(entry, { path: { relayer_id: relayer }, body })) as {
      result?: { conversion_rate: string; estimated_fee: string; method: string };
      error?: { code: number; message: string; description?: string };
    };
    if (found.error) throw new RpcError(found.error.code, found.error.message, found.error.description ?? "");
    if (!found.result) throw new TransportError("the response has neither a result nor an error");
    return found.result;
  }

  async #call(entry: Entry, options: Untyped): Promise<unknown> {
    const [method, , effect] = entry;
    const keyed = effect === "keyed" ? { ...options, idempotencyKey: options.idempotencyKey ?? crypto.randomUUID() } : options;
    const mayRepeat = effect !== "once" && !(method === "PATCH" && options.ifMatch !== undefined);
    let wasUncertain = false;
    for (let attempt = 1; ; attempt++) {
      const { response, failure } = await this.#attempt(entry, keyed);
      if (response) return this.#read(entry, response);
      // A record that a repeated delete does not find was deleted by an attempt before it.
      if (method === "DELETE" && wasUncertain && failure instanceof ApiError && failure.status === 404) return DELETED;
      const pause = this.#pause(failure as TransportError | ApiError, attempt, mayRepeat);
      if (pause === undefined) throw failure;
      wasUncertain ||= (failure as TransportError | ApiError).uncertain;
      await new Promise((resolve) => setTimeout(resolve, pause));
      options.signal?.throwIfAborted();
    }
  }

  async #attempt([method, template, effect]: Entry, options: Untyped): Promise<Attempt> {
    const headers: Record<string, string> = { authorization: `Bearer ${this.#token}`, accept: "application/json" };
    if (options.ifMatch !== undefined) headers["if-match"] = options.ifMatch;
    if (options.idempotencyKey !== undefined) headers["idempotency-key"] = options.idempotencyKey;
    if (effect === "read" && this.#revision) headers["relaydeck-min-revision"] = String(this.#revision);
    if (options.body !== undefined) {
      const isPatch = method === "PATCH" && template.startsWith("/admin/");
      headers["content-type"] = isPatch ? "application/merge-patch+json" : "application/json";
    }
    const address = this.#base + target(template, options);
    const timeout = AbortSignal.timeout(this.#settings.timeout);
    const signal = options.signal ? AbortSignal.any([options.signal, timeout]) : timeout;
    try {
      const response = await this.#settings.fetch(address, {
        method,
        headers,
        redirect: "manual", // a token is sent to no other address
        signal,
        ...(options.body === undefined ? {} : { body: encode(options.body) }),
      });
      const text = await textOf(response);
      if (text === undefined) return { failure: tooLarge(response.status) };
      if (response.ok) return { response: { status: response.status, headers: response.headers, text } };
      return { failure: errorOf(response.status, response.headers, text) };
    } catch (error) {
      if (options.signal?.aborted) throw error;
      const message = timeout.aborted ? "the service did not answer in time" : "the connection failed";
      return { failure: new TransportError(message, { cause: error }) };
    }
  }

  #read([, , effect]: Entry, response: { status: number; headers: Headers; text: string }): unknown {
    if (effect !== "read") {
      this.#revision = Math.max(this.#revision, Number(response.headers.get("relaydeck-revision") ?? 0));
    }
    const body = decode(response.text);
    if (body === undefined) throw new TransportError("the response is not JSON");
    return body;
  }

  #pause(failure: TransportError | ApiError, attempt: number, mayRepeat: boolean): number | undefined {
    const status = failure instanceof ApiError ? failure.status : undefined;
    const refused = status === 429;
    if (attempt >= this.#settings.attempts || !(refused || (mayRepeat && failure.uncertain))) return undefined;
    const wait = failure instanceof ApiError ? (failure.retryAfter ?? 0) : 0;
    if (wait > LONGEST_WAIT_SECONDS) return undefined;
    return wait * 1_000 + Math.random() * Math.min(LONGEST_PAUSE, this.#settings.firstPause * 2 ** (attempt - 1));
  }
}

function target(template: string, options: Untyped): string {
  const path = template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = options.path?.[name];
    if (!value) throw new TypeError(`the path needs ${name}`);
    // `fetch` takes these out of the path: `deliveries/./replay` would send every dead delivery again.
    if (value === "." || value === "..") throw new TypeError(`${name} must not be a dot segment`);
    return encodeURIComponent(value);
  });
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(options.query ?? {})) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null) query.append(name, String(each));
    }
  }
  return query.size ? `${path}?${query}` : path;
}

/** A bigint is written as a JSON integer: amounts in wei are larger than a number can hold exactly. */
function encode(body: unknown): string {
  const exact: string[] = [];
  const mark = crypto.randomUUID();
  const text = JSON.stringify(body, (_, value: unknown) =>
    typeof value === "bigint" ? `${mark}${exact.push(String(value)) - 1}` : value,
  );
  return text.replace(new RegExp(`"${mark}(\\d+)"`, "g"), (_, index: string) => exact[Number(index)] as string);
}

/** The body; undefined if it is too large: a server may send one that has no end. */
async function textOf(response: Response): Promise<string | undefined> {
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  let [text, size] = ["", 0];
  for (let part = await reader?.read(); part?.value; part = await reader?.read()) {
    size += part.value.byteLength;
    if (size > MOST_RESPONSE_BYTES) {
      await reader?.cancel();
      return undefined;
    }
    text += decoder.decode(part.value, { stream: true });
  }
  return text + decoder.decode();
}

function tooLarge(status: number): ApiError {
  return new ApiError(`the response is larger than ${MOST_RESPONSE_BYTES} bytes`, status, "", "", undefined, {});
}

function decode(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function errorOf(status: number, headers: Headers, text: string): ApiError | TransportError {
  const found = decode(text);
  const body = (typeof found === "object" && found !== null ? found : {}) as Record<string, unknown>;
  const message = body["message"] ?? body["title"];
  const isGateway = [429, 500, 502, 503, 504].includes(status);
  if (typeof message !== "string" && !isGateway) {
    return new ApiError(`the response has no described error body (HTTP status ${status})`, status, "", "", undefined, {});
  }
  const detail = typeof body["detail"] === "string" ? body["detail"] : "";
  const wait = headers.get("retry-after") ?? "";
  return new ApiError(
    typeof message === "string" ? message : `HTTP status ${status}`,
    status,
    detail || (headers.get("relaydeck-reason") ?? ""),
    headers.get("x-request-id") ?? "",
    /^\d{1,9}$/.test(wait) ? Number(wait) : undefined,
    "title" in body ? body : {},
  );
}
