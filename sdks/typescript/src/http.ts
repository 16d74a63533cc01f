/**
 * Single requests to a DriftQ server.
 *
 * 1. Paths are below `/v1`. Every request carries the API key, if there is one.
 * 2. A rejection is a {@link Reply}, not an error.
 * 3. A {@link SendError} means that the outcome is unknown, unless `isSent` is false.
 */

import type { Body } from "./errors.js";
import { textOf } from "./errors.js";
import { unsafeInteger } from "./integers.js";

/** A W3C trace context. */
export interface Trace {
  readonly traceparent: string;
  readonly tracestate?: string | undefined;
}

/** Where requests go, and what all of them carry. */
export interface Connection {
  /** The URL of the server, without `/v1`. */
  readonly url: string;
  readonly apiKey?: string | undefined;
  readonly trace?: Trace | undefined;
  readonly fetch?: typeof fetch | undefined;
}

/** The status and body of a response. */
export interface Reply {
  readonly status: number;
  /** An empty object if the response has no body. */
  readonly body: Body;
}

/** The request got no complete response. */
export class SendError extends Error {
  override name = "SendError";

  constructor(
    what: string,
    /** False if no connection could be opened. */
    readonly isSent: boolean,
    cause: unknown,
  ) {
    super(what, { cause });
  }
}

/** Bodies that have an integer beyond 2^53, so that the value read is not the value sent. */
const inexact = new WeakSet<Body>();

export function isExact(body: Body): boolean {
  return !inexact.has(body);
}

/** Sends one request, which may take `timeoutMs`. A request without a body is a GET request. */
export async function send(
  { url, apiKey, trace, fetch: custom }: Connection,
  method: string,
  path: string,
  body: string | undefined,
  timeoutMs: number,
): Promise<Reply> {
  const what = `${method} ${path}`;
  const headers: Record<string, string> = {};
  if (body !== undefined) headers["content-type"] = "application/json";
  if (apiKey !== undefined) headers.authorization = `Bearer ${apiKey}`;
  if (trace) headers.traceparent = trace.traceparent;
  if (trace?.tracestate) headers.tracestate = trace.tracestate;
  const timeout = new AbortController();
  const timer = setTimeout(() => timeout.abort(new Error(`no answer in ${timeoutMs} ms`)), timeoutMs);
  let status: number;
  let text: string;
  try {
    const response = await (custom ?? fetch)(`${url}/v1/${path}`, {
      method,
      headers,
      signal: timeout.signal,
      // A redirect can turn a POST into a GET, and gives the key to another server.
      redirect: "manual",
      ...(body === undefined ? {} : { body }),
    });
    status = response.status;
    text = await response.text();
    if (status === 429 && !text) text = retryAfter(response.headers.get("retry-after"));
  } catch (error) {
    throw new SendError(what, !isConnectError(error), error);
  } finally {
    clearTimeout(timer);
  }
  return { status, body: read(what, status, text) };
}

function read(what: string, status: number, text: string): Body {
  if (!text) return {};
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch (error) {
    // A proxy in between answers in its own words. Its status still counts.
    if (status >= 300) return { message: `${what}: status ${status}: ${text.slice(0, 200)}` };
    throw new SendError(`${what}: the response is not JSON`, true, error);
  }
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    throw new SendError(`${what}: the response is not that of DriftQ`, true, undefined);
  }
  if (unsafeInteger(text) !== undefined) inexact.add(body as Body);
  return body as Body;
}

function retryAfter(seconds: string | null): string {
  return seconds && /^\d{1,6}$/.test(seconds) ? `{"retry_after_ms":${Number(seconds) * 1_000}}` : "";
}

const CONNECT_CODES = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
  // Bun
  "ConnectionRefused",
  "FailedToOpenSocket",
]);

/** Whether no connection could be opened, so that nothing was sent. */
export function isConnectError(error: unknown): boolean {
  // Deno has no codes.
  if (/client error \(Connect\)/.test(textOf(error))) return true;
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
  // One error for each address of the host.
  const errors: unknown[] = cause instanceof AggregateError ? cause.errors : [cause];
  return errors.length > 0 && errors.every(isOneConnectError);
}

function isOneConnectError(error: unknown): boolean {
  const { code, syscall, message } = (error ?? {}) as {
    code?: unknown;
    syscall?: unknown;
    message?: unknown;
  };
  // The standard of `fetch` forbids some ports.
  if (syscall === "connect" || message === "bad port") return true;
  return typeof code === "string" && CONNECT_CODES.has(code);
}
