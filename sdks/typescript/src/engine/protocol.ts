/** The messages between the thread of a worker (the engine) and the main thread, which runs the handlers. */

import type { Connection } from "../http.js";
import type { LogFields, LogLevel } from "../logger.js";
import type { components } from "../wire.js";

/** What becomes of a delivery. */
export type SettleItem = components["schemas"]["SettleItem"];

/** A delivery as the engine passes it on. */
export interface Work {
  /** Names the delivery in later messages. */
  readonly number: number;
  /** The index of its flag. */
  readonly slot: number;
  readonly delivery: components["schemas"]["Delivery"];
}

/** Why a delivery is cancelled, as its flag says it. The main thread reads flags even while it is blocked. */
export const FLAG = { none: 0, lost: 1, stopping: 2 } as const;

/** A handler, as far as the engine has to know it. */
export interface Subscription {
  readonly topic: string;
  readonly group: string;
  readonly concurrency: number;
}

export interface EngineConfig {
  readonly connection: Connection;
  readonly owner: string;
  readonly host: string;
  readonly version: string;
  readonly subscriptions: readonly Subscription[];
  readonly leaseMs: number;
  readonly maxProcessingMs: number;
  readonly shutdownTimeoutMs: number;
  /** Whether SIGTERM and SIGINT stop the worker, and a handler that ignores its cancellation ends the process. */
  readonly hasSignals: boolean;
  /** One for each delivery that can be in work. */
  readonly flags: Int32Array;
}

export type ToEngine =
  /** The handler has ended. Without an item there is nothing to settle. */
  | { type: "ended"; number: number; item: SettleItem | undefined }
  | { type: "stop" }
  /** A signal that the main thread has received. */
  | { type: "signal" };

export type FromEngine =
  /** Whether the engine receives signals itself. */
  | { type: "ready"; receivesSignals: boolean }
  | { type: "work"; subscription: number; work: readonly Work[] }
  | { type: "cancel"; number: number; reason: string }
  /** The result of an attempt is dropped. */
  | { type: "lost"; id: string; topic: string; group: string; attempt: number; reason: string }
  | { type: "log"; level: LogLevel; message: string; fields: LogFields }
  /** The process has to end with an error. */
  | { type: "exit"; why: string }
  /** The worker has ended, with the deliveries whose handlers did not. */
  | { type: "stopped"; stuck: readonly string[] };
