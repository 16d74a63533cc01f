/** The client: produces messages and sends any other request. It runs wherever there is `fetch`. */

import { type Duration, sleep, toMsWithin } from "./duration.js";
import { type Body, type DriftqError, errorOfItem, Invalid, OutcomeUnknown } from "./errors.js";
import { type Connection, type Reply, SendError, send, type Trace } from "./http.js";
import { encode, hasKey, type Message, type MessageOptions, message } from "./message.js";
import { call } from "./retry.js";
import type { InputOf, StandardSchema } from "./standard-schema.js";
import type { components } from "./wire.js";

export * from "./errors.js";
export type { Reply, StandardSchema, Trace };
export { type Duration, type Message, type MessageOptions, message, SendError };

/** The wait before a batch is sent again of which the server could not store an item now. */
const RETRY_DELAY_MS = 200;
const TIMEOUT_MS_MAX = 86_400_000;

/** The settings of a client. */
export interface ClientOptions {
  /** The URL of the server, with or without `/v1` at its end. */
  url: string;
  /** Sent with every request. */
  apiKey?: string | undefined;
  /** How long a request is tried. 30 s by default. */
  timeout?: Duration | undefined;
  /** Used instead of the global `fetch`, but not by the thread of a worker. */
  fetch?: typeof fetch | undefined;
}

/** Where a message was stored. */
export interface Receipt {
  /** The requested topic. */
  readonly topic: string;
  /** The topic that stored it, if it is another one. */
  readonly finalTopic?: string;
  readonly partition: number;
  readonly offset: number;
  readonly id: string;
  /** Whether it had been stored before. */
  readonly deduplicated: boolean;
}

/** A client of one server. */
export class Client {
  /** Where its requests go. */
  readonly connection: Connection;
  private readonly timeoutMs: number;
  /** What the server can do, asked once. */
  private features: { asked?: Promise<ReadonlySet<unknown>> | undefined } = {};

  constructor(options: ClientOptions | string) {
    const { url, apiKey, timeout = 30_000, fetch } = typeof options === "string" ? { url: options } : options;
    // A newline at its end, for example, would fail each request.
    if (apiKey !== undefined && !/^[\x21-\x7e]+$/.test(apiKey)) {
      throw new Invalid("apiKey: must be printable ASCII without spaces");
    }
    this.connection = { url: baseOf(url), apiKey, fetch };
    this.timeoutMs = toMsWithin(timeout, "timeout", 1, TIMEOUT_MS_MAX);
  }

  /** A client whose requests continue a trace. */
  continuing(trace: Trace | undefined): Client {
    if (trace === this.connection.trace) return this;
    const { connection, features } = this;
    return Object.assign(Object.create(Client.prototype), this, {
      connection: { ...connection, trace },
      features,
    });
  }

  /**
   * Stores a message whose value is `value` as JSON. A lost response is no reason to store it twice: the
   * request has a nonce.
   */
  async produce<S extends StandardSchema = StandardSchema>(
    topic: string,
    value: InputOf<S>,
    options: MessageOptions<S> = {},
  ): Promise<Receipt> {
    const of = message(topic, value, options);
    const body = await encode(of);
    const hasNonce = await this.supports("nonce");
    if (hasNonce) body.nonce = nonce();
    const isRepeatable = hasNonce || hasKey(of);
    return receipt(
      await call(this.connection, { path: "produce", body, isRepeatable, timeoutMs: this.timeoutMs }),
    );
  }

  /** Stores up to 1 000 messages. Each succeeds or fails on its own. */
  async produceBatch(messages: readonly Message[]): Promise<(Receipt | DriftqError)[]> {
    if (messages.length === 0) return [];
    const began = performance.now();
    const encoded = await Promise.all(messages.map(encode));
    const hasNonce = await this.supports("nonce");
    const body = { messages: encoded, ...(hasNonce ? { nonce: nonce() } : {}) };
    const isRepeatable = hasNonce || messages.every(hasKey);
    for (;;) {
      const timeoutMs = Math.max(this.timeoutMs - (performance.now() - began), 1);
      const answer = await call(this.connection, { path: "produce/batch", body, isRepeatable, timeoutMs });
      const results = answer.results;
      if (!Array.isArray(results) || results.length !== messages.length) throw notOfDriftq();
      // For example, the shard of an item is moving to another node. The nonce keeps the items that are
      // stored from being stored again.
      const isDone = !results.some((result: Body) => result.retryable === true);
      if (isDone || !hasNonce || performance.now() - began + RETRY_DELAY_MS >= this.timeoutMs) {
        return results.map((result: Body) =>
          result.error === undefined ? receipt(result) : errorOfItem(result),
        );
      }
      await sleep(RETRY_DELAY_MS);
    }
  }

  /** Sends one request to a route that has no method here. `path` is below `/v1`. Rejections are replies. */
  request(method: string, path: string, body?: unknown): Promise<Reply> {
    return send(
      this.connection,
      method,
      path,
      body === undefined ? undefined : JSON.stringify(body),
      this.timeoutMs,
    );
  }

  /** Whether the server has a feature, by its name in `GET /v1/version`. */
  private async supports(feature: string): Promise<boolean> {
    this.features.asked ??= this.askFeatures();
    try {
      return (await this.features.asked).has(feature);
    } catch (error) {
      this.features.asked = undefined;
      throw error;
    }
  }

  private async askFeatures(): Promise<ReadonlySet<unknown>> {
    const { connection, timeoutMs } = this;
    const { features } = await call(connection, { path: "version", isRepeatable: true, timeoutMs });
    return new Set(Array.isArray(features) ? features : []);
  }
}

/** A name that no other request has. */
export function nonce(): string {
  return crypto.randomUUID().replaceAll("-", "");
}

function baseOf(url: string): string {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch (cause) {
    throw new Invalid(`${url}: not a URL`, { cause });
  }
  if (!["http:", "https:"].includes(parsed.protocol)) {
    throw new Invalid(`${url}: the URL must begin with http:// or https://`);
  }
  if (parsed.username || parsed.password || parsed.search || parsed.hash) {
    throw new Invalid("the URL must have no user, query or fragment; the key is apiKey");
  }
  return url.replace(/\/+$/, "").replace(/\/v1$/, "");
}

function receipt(body: Body): Receipt {
  const { topic, partition, offset, id, deduplicated, final_topic } =
    body as components["schemas"]["Receipt"];
  if (typeof id !== "string") throw notOfDriftq();
  return { topic, partition, offset, id, deduplicated, ...(final_topic ? { finalTopic: final_topic } : {}) };
}

function notOfDriftq(): OutcomeUnknown {
  return new OutcomeUnknown("the response is not that of DriftQ");
}
