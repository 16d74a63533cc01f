/** The errors of requests. */

/** The JSON object of a response. */
export type Body = { readonly [name: string]: unknown };

/** Any error of this package that is about a request. */
export class DriftqError extends Error {
  override name = "DriftqError";
}

/** The server rejected the request. It changed nothing. */
export class Refused extends DriftqError {
  override name = "Refused";
  /** The code, for example `NOT_FOUND`. */
  readonly code: string;
  /** The HTTP status. 0 for an item of a batch. */
  readonly status: number;
  /** The complete body. */
  readonly body: Body;

  constructor(status: number, body: Body) {
    const code = typeof body.error === "string" ? body.error : "UNKNOWN";
    const message = typeof body.message === "string" ? body.message : `status ${status}`;
    super(`${message} (${code})`);
    this.code = code;
    this.status = status;
    this.body = body;
  }

  /** The wait before the request can succeed, if the server names one. */
  get retryAfterMs(): number | undefined {
    return retryAfterMs(this.body);
  }
}

/** The server did not handle the request in time. It changed nothing. */
export class Unavailable extends DriftqError {
  override name = "Unavailable";
}

/** The request may have been executed. */
export class OutcomeUnknown extends DriftqError {
  override name = "OutcomeUnknown";
}

/** The attempt has ended, and its result does not count. */
export class LeaseLost extends DriftqError {
  override name = "LeaseLost";
}

/** A value or a setting cannot be used. Nothing was sent. */
export class Invalid extends DriftqError {
  override name = "Invalid";
}

/** The wait that a response asks for. */
export function retryAfterMs(body: Body): number | undefined {
  const ms = body.retry_after_ms;
  return typeof ms === "number" && ms >= 0 ? ms : undefined;
}

/** The error of a rejection: the lease is lost if it was the lease token that was rejected. */
export function refused(status: number, body: Body): DriftqError {
  const refusal = new Refused(status, body);
  // The attempt has ended, or the token is of another server.
  const isOfTheLease =
    refusal.code === "STALE_LEASE" ||
    (refusal.code === "INVALID_ARGUMENT" && (body.field === "token" || body.field === "lease_token"));
  return isOfTheLease ? new LeaseLost(refusal.message) : refusal;
}

/** The error of an item of a batch. */
export function errorOfItem(body: Body): DriftqError {
  const refusal = new Refused(0, body);
  if (body.outcome === undefined) return refused(0, body);
  return body.outcome === "none" ? new Unavailable(refusal.message) : new OutcomeUnknown(refusal.message);
}

/** The text of anything that was thrown, with its causes. It never throws. */
export function textOf(thrown: unknown): string {
  const texts: string[] = [];
  let cause = thrown;
  // A chain of causes can be a circle.
  for (let depth = 0; depth < 5 && (depth === 0 || cause !== undefined); depth += 1) {
    texts.push(textOfOne(cause));
    cause = cause instanceof Error ? cause.cause : undefined;
  }
  return texts.join(": ");
}

function textOfOne(thrown: unknown): string {
  try {
    if (!(thrown instanceof Error)) return String(thrown);
    const text = thrown.message || (thrown as { code?: unknown }).code;
    return ["Error", "DriftqError"].includes(thrown.name)
      ? String(text || thrown.name)
      : `${thrown.name}: ${text}`;
  } catch {
    return "an error without a text";
  }
}
