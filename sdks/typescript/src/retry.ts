/**
 * Sends requests again, as far as that is safe.
 *
 * The body of an error says whether the request happened: its `outcome` is `none` or `unknown`. A broken
 * connection is unknown, and one that could not be opened is none. After an unknown outcome, only a request
 * that the server recognizes is sent again.
 */

import { sleep } from "./duration.js";
import type { Body, DriftqError } from "./errors.js";
import { OutcomeUnknown, Refused, refused, retryAfterMs, textOf, Unavailable } from "./errors.js";
import type { Connection, Reply } from "./http.js";
import { SendError, send } from "./http.js";

const BACKOFF_MS_MIN = 50;
const BACKOFF_MS_MAX = 5_000;
/** How long one request may take, if it can be sent again. A connection that hangs must leave time for another. */
const REQUEST_MS = 10_000;
/** A server that asks for no wait at all must not be asked in a tight loop. */
const WAIT_MS_MIN = 10;

/** A request, and how it may be sent again. */
export interface Call {
  readonly path: string;
  /** Without a body it is a GET request. */
  readonly body?: object;
  /** Whether the server recognizes a repeat: by a key, a token or a nonce. */
  readonly isRepeatable: boolean;
  /** How long to try. */
  readonly timeoutMs: number;
}

type Attempt =
  | { is: "done"; body: Body }
  | { is: "refused"; error: DriftqError; status: number }
  /** It did not happen. Try again, after this time if the server names one. */
  | { is: "not now"; why: string; afterMs?: number | undefined; error?: DriftqError }
  /** It may have happened. */
  | { is: "unknown"; why: string };

export async function call(connection: Connection, of: Call): Promise<Body> {
  const began = performance.now();
  const text = of.body && JSON.stringify(of.body);
  let backoffMs = BACKOFF_MS_MIN;
  let unknown: string | undefined;
  for (;;) {
    const leftMs = Math.max(of.timeoutMs - (performance.now() - began), 1);
    const withinMs = of.isRepeatable ? Math.min(leftMs, REQUEST_MS) : leftMs;
    const attempt = await sendOnce(connection, of.path, text, withinMs);
    if (attempt.is === "done") return attempt.body;
    if (attempt.is === "refused") {
      // It says nothing about the earlier request.
      const isOfTheCaller = [401, 403, 404].includes(attempt.status);
      throw unknown !== undefined && isOfTheCaller
        ? new OutcomeUnknown(attempt.error.message)
        : attempt.error;
    }
    if (attempt.is === "unknown") {
      if (!of.isRepeatable) throw new OutcomeUnknown(attempt.why);
      unknown = attempt.why;
    }
    const { afterMs, error } = attempt.is === "not now" ? attempt : { afterMs: undefined, error: undefined };
    const waitMs = Math.max(afterMs ?? backoffMs * Math.random(), WAIT_MS_MIN);
    if (performance.now() - began + waitMs >= of.timeoutMs) {
      // A later answer says nothing about an earlier request.
      if (unknown !== undefined) throw new OutcomeUnknown(unknown);
      throw error ?? new Unavailable(attempt.why);
    }
    backoffMs = Math.min(backoffMs * 2, BACKOFF_MS_MAX);
    await sleep(waitMs);
  }
}

async function sendOnce(
  connection: Connection,
  path: string,
  body: string | undefined,
  withinMs: number,
): Promise<Attempt> {
  try {
    return attemptOf(await send(connection, body === undefined ? "GET" : "POST", path, body, withinMs));
  } catch (error) {
    if (!(error instanceof SendError)) throw error;
    return { is: error.isSent ? "unknown" : "not now", why: textOf(error) };
  }
}

function attemptOf({ status, body }: Reply): Attempt {
  if (status >= 200 && status < 300) return { is: "done", body };
  const why = new Refused(status, body).message;
  const { outcome } = body;
  const afterMs = retryAfterMs(body);
  if (status === 429) return { is: "not now", why, afterMs, error: refused(status, body) };
  if (outcome === "none" && (status === 408 || status === 503)) return { is: "not now", why, afterMs };
  if (status === 408 || (status >= 500 && outcome !== "none")) return { is: "unknown", why };
  return { is: "refused", error: refused(status, body), status };
}
