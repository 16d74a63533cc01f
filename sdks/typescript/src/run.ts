/** One run of a worker, from its start until it has stopped: the part on the main thread. */

import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import type { Client } from "./client.js";
import { Context } from "./context.js";
import { REPEAT_MS } from "./engine/engine.js";
import { EXIT_STATUS, stuckText } from "./engine/exit.js";
import { FLAG, type FromEngine, type SettleItem, type Work } from "./engine/protocol.js";
import { type EngineHandle, startEngine } from "./engine-handle.js";
import { DriftqError, textOf } from "./errors.js";
import type { Handler } from "./handler.js";
import { isOutcome, settlementOfError } from "./settlement.js";
import { VERSION } from "./version.js";
import type { RunOptions, Settings } from "./worker.js";

/** Why a worker ended, other than because it was stopped. */
export class WorkerError extends DriftqError {
  override name = "WorkerError";
}

const SIGNALS = ["SIGTERM", "SIGINT"] as const;

export class Run {
  /** Fulfilled when the worker has stopped. */
  readonly ended: Promise<void>;
  private readonly owner = ownerName();
  private readonly flags: Int32Array;
  private readonly engine: EngineHandle;
  private readonly inWork = new Map<number, Context>();
  /** Whether the engine receives signals itself. */
  private isSignalled = false;
  private readonly onSignal = () => {
    if (!this.isSignalled && !this.isOver) this.engine.post({ type: "signal" });
  };
  private readonly onAbort = () => this.engine.post({ type: "stop" });
  private readonly signal: AbortSignal | undefined;
  private isOver = false;
  private finish: (error?: WorkerError) => void = () => {};

  constructor(
    private readonly client: Client,
    private readonly handlers: readonly Handler[],
    private readonly settings: Settings,
    { signal, engine = "thread" }: RunOptions,
  ) {
    this.signal = signal;
    const { url, apiKey, fetch } = client.connection;
    const { logger, leaseMs, maxProcessingMs, shutdownTimeoutMs } = settings;
    const slots = handlers.reduce((sum, { concurrency }) => sum + concurrency, 0);
    this.flags = new Int32Array(new SharedArrayBuffer(slots * Int32Array.BYTES_PER_ELEMENT));
    this.ended = new Promise((resolve, reject) => {
      this.finish = (error) => {
        this.isOver = true;
        this.cleanUp();
        // The engine has nothing left to do, so an error of its end changes nothing.
        void this.engine.end().catch(() => {});
        if (error) reject(error);
        else resolve();
      };
    });
    const config = {
      // A function cannot go to another thread.
      connection: { url, apiKey, ...(engine === "main" ? { fetch } : {}) },
      owner: this.owner,
      host: hostname(),
      version: VERSION,
      subscriptions: handlers.map(({ topic, group, concurrency }) => ({ topic, group, concurrency })),
      leaseMs,
      maxProcessingMs,
      shutdownTimeoutMs,
      hasSignals: signal === undefined,
      flags: this.flags,
    };
    const onFailed = (error: unknown) => this.fail(`the worker failed: ${textOf(error)}`);
    this.engine = startEngine(
      engine,
      config,
      { onMessage: (message) => this.receive(message), onFailed },
      logger,
    );
    // Also if the engine receives them: a tool that looks for listeners must not end the process.
    if (!signal) for (const name of SIGNALS) process.on(name, this.onSignal);
    if (signal?.aborted) this.onAbort();
    signal?.addEventListener("abort", this.onAbort);
  }

  private receive(message: FromEngine): void {
    switch (message.type) {
      case "ready":
        this.isSignalled = message.receivesSignals;
        break;
      case "work":
        // Each begins in a turn of its own, so that the ack of one that blocks does not wait for the others.
        for (const work of message.work) setImmediate(() => void this.handle(message.subscription, work));
        break;
      case "cancel":
        this.inWork.get(message.number)?.cancel(message.reason);
        break;
      case "lost":
        this.lost(message);
        break;
      case "log":
        this.settings.logger[message.level](message.message, message.fields);
        break;
      case "stopped":
        this.finish(message.stuck.length > 0 ? new WorkerError(stuckText(message.stuck)) : undefined);
        break;
      case "exit":
        this.settings.logger.error(message.why, {});
        process.exit(EXIT_STATUS);
    }
  }

  /** Runs the handler of a delivery. Never throws. */
  private async handle(subscription: number, { number, slot, delivery }: Work): Promise<void> {
    // Its lease is not renewed.
    if (this.isOver) return;
    const handler = this.handlers[subscription] as Handler;
    const flag = () => Atomics.load(this.flags, slot);
    // It was lost or given back while it waited for the main thread.
    if (flag() !== FLAG.none) return this.end(number, { op: "nack", release: true });
    const context = new Context({
      delivery,
      client: this.client,
      owner: this.owner,
      logger: this.settings.logger,
      effectDefaults: handler.effectDefaults,
      isCancelled: () => flag() !== FLAG.none,
    });
    this.inWork.set(number, context);
    let item: SettleItem | undefined = { op: "ack" };
    try {
      await handler.handle(context);
    } catch (error) {
      item = settlementOfError(error, flag() === FLAG.stopping);
      this.logFailure(context, error);
    }
    try {
      await context.end();
    } catch (error) {
      context.log.warn("an outcome was not recorded", { error: textOf(error) });
    }
    this.inWork.delete(number);
    this.end(number, context.isCommitted ? undefined : item);
  }

  private logFailure({ log, isCommitted, isCancelled }: Context, error: unknown): void {
    if (isCommitted) log.warn("the handler failed after its commit", { error });
    else if (isCancelled || isOutcome(error)) log.debug("the handler ended without success", { error });
    else log.warn("the handler failed", { error });
  }

  private end(number: number, item: SettleItem | undefined): void {
    this.engine.post({ type: "ended", number, item });
  }

  private lost({ type: _, ...lost }: FromEngine & { type: "lost" }): void {
    this.settings.logger.warn("lease lost; the result is dropped", lost);
    try {
      this.settings.onLost(lost);
    } catch (error) {
      this.settings.logger.error("onLost failed", { error: textOf(error) });
    }
  }

  /** Nothing renews the leases any more, so nothing may go on. */
  private fail(why: string): void {
    for (const context of this.inWork.values()) context.cancel(why);
    this.finish(new WorkerError(why));
  }

  private cleanUp(): void {
    this.signal?.removeEventListener("abort", this.onAbort);
    // A signal that is repeated while the process ends must not kill it. The timer does not keep it from ending.
    const timer = setTimeout(() => {
      for (const name of SIGNALS) process.off(name, this.onSignal);
    }, REPEAT_MS);
    timer.unref();
  }
}

/** A name that no other worker has: host, process and four random digits. */
function ownerName(): string {
  return `${hostname()}-${process.pid}-${randomBytes(2).toString("hex")}`;
}
