// Every way a call can fail. `uncertain` is true where the service may still have made the change.

/** No complete response arrived: the connection failed (`cause` is the error of `fetch`), or the time for one attempt ran out. */
export class TransportError extends Error {
  readonly uncertain = true;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "TransportError";
  }
}

/** The service refused or failed. `message` is that of the interface, `reason` says what exactly was wrong. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly reason: string,
    readonly requestId: string,
    /** Seconds to wait, where the service says so. */
    readonly retryAfter: number | undefined,
    /** The members of RFC 9457 problem details, under `/admin/v1`. */
    readonly problem: Readonly<Record<string, unknown>>,
  ) {
    super(message);
    this.name = "ApiError";
  }

  get uncertain(): boolean {
    return this.status >= 500;
  }
}

/** The `error` object of a JSON-RPC response. */
export class RpcError extends Error {
  constructor(
    readonly code: number,
    message: string,
    readonly description: string,
  ) {
    super(description ? `${message}: ${description}` : message);
    this.name = "RpcError";
  }
}

/** A received webhook is not to be believed. */
export class WebhookError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "WebhookError";
  }
}
