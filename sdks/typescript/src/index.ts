/**
 * Client and worker runtime for DriftQ, a durable queue in which a side effect happens once.
 *
 * `Client` produces messages. `Worker` receives them, runs a handler for each, renews the lease while the handler
 * runs, and settles the message. In the handler, `ctx.effect` records what happened in other systems, and
 * `ctx.commit` acks the message and produces the next ones at once.
 */

export * from "./client.js";
export type { CommitOptions } from "./commit.js";
export type { Context, Delivery } from "./context.js";
export type { EffectOptions, Execution, OnDoubt, Probed } from "./effect.js";
export { effectFetch, errorOfStatus } from "./effect-fetch.js";
export type { Middleware } from "./handler.js";
export type { Logger } from "./logger.js";
export { Cancelled, Declined, EffectFailed, NotHappened, Reject, Release, Retry } from "./outcomes.js";
export { WorkerError } from "./run.js";
export {
  type HandlerOptions,
  type LostLease,
  type RunOptions,
  Worker,
  type WorkerOptions,
} from "./worker.js";
