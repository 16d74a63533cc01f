/**
 * The worker: receives messages, runs their handlers, renews their leases and settles them.
 *
 * 1. A worker receives no more messages than it has free slots. No message waits in the worker.
 * 2. Handlers run on the main thread. Everything else runs on a thread of its own (`engine/`), so a handler that
 *    blocks the main thread delays no renewal, receive or ack.
 * 3. A stopping worker leaves first, so that it gets nothing more. It then finishes what it has, while it still
 *    renews.
 * 4. A handler that does not end when it is cancelled may still act. Its message is not released.
 */

import { Client, type ClientOptions } from "./client.js";
import type { Context, EffectDefaults } from "./context.js";
import { type Duration, toMsWithin } from "./duration.js";
import type { EnginePlace } from "./engine-handle.js";
import { Invalid } from "./errors.js";
import { around, type Handle, type Handler, type Middleware, rawValue, readValue } from "./handler.js";
import { consoleLogger, type Logger, quietly } from "./logger.js";
import { Run } from "./run.js";
import type { OutputOf, StandardSchema } from "./standard-schema.js";

const HOUR_MS = 3_600_000;

/** An attempt whose result is dropped, because its lease is lost. */
export interface LostLease {
  readonly id: string;
  readonly topic: string;
  readonly group: string;
  readonly attempt: number;
  readonly reason: string;
}

/** The settings of a worker. */
export interface WorkerOptions extends Partial<ClientOptions> {
  /** Instead of `url`. */
  client?: Client;
  /** How many messages each handler works on at a time. 8 by default. */
  concurrency?: number;
  /** The lease of deliveries, which is renewed while their handlers run. 30 s by default. */
  lease?: Duration;
  /** How long the lease of a message is renewed. One hour by default. */
  maxProcessing?: Duration;
  /** How long handlers may take to end when the worker stops. 25 s by default. */
  shutdownTimeout?: Duration;
  /** The console by default. */
  logger?: Logger;
  /** Called when the result of an attempt is dropped. */
  onLost?: (lost: LostLease) => void;
}

/** The settings of a handler. */
export interface HandlerOptions extends EffectDefaults {
  /** The group that receives the messages. */
  group: string;
  /** How many messages the handler works on at a time. */
  concurrency?: number;
}

/** Settings that are checked and complete. */
export interface Settings {
  readonly leaseMs: number;
  readonly maxProcessingMs: number;
  readonly shutdownTimeoutMs: number;
  readonly logger: Logger;
  readonly onLost: (lost: LostLease) => void;
}

/** The settings of a run. */
export interface RunOptions {
  /** Stops the worker when it is aborted. Signals of the process are left alone. */
  signal?: AbortSignal;
  /**
   * `main` runs everything on the main thread, which starts faster. A handler that blocks it loses its lease. `thread`
   * by default.
   */
  engine?: EnginePlace;
}

/** Runs handlers for the messages of topics. */
export class Worker {
  readonly client: Client;
  private readonly concurrency: number;
  private readonly settings: Settings;
  private readonly handlers: Handler[] = [];
  private readonly middleware: Middleware[] = [];
  private isRunning = false;

  constructor(options: WorkerOptions) {
    const { client, url, apiKey, timeout, fetch, onLost = () => {} } = options;
    const { lease = "30s", maxProcessing = "1h", shutdownTimeout = "25s", logger = consoleLogger } = options;
    if (!client && url === undefined) throw new Invalid("a worker needs a url or a client");
    this.client = client ?? new Client({ url: url as string, apiKey, timeout, fetch });
    this.concurrency = checkConcurrency(options.concurrency ?? 8);
    this.settings = {
      leaseMs: toMsWithin(lease, "lease", 250, 12 * HOUR_MS),
      maxProcessingMs: toMsWithin(maxProcessing, "maxProcessing", 1, 1_000 * HOUR_MS),
      // The longest time that a timer can wait.
      shutdownTimeoutMs: toMsWithin(shutdownTimeout, "shutdownTimeout", 0, 2 ** 31 - 1),
      logger: quietly(logger),
      onLost,
    };
  }

  /** Handles the messages of a topic. A value that does not match the schema makes its message a dead letter. */
  handle<S extends StandardSchema>(
    topic: string,
    options: HandlerOptions & { schema: S },
    handle: (value: OutputOf<S>, context: Context) => Promise<void> | void,
  ): this;
  /** Handles messages whose values are not JSON, or have integers beyond 2^53. */
  handle(
    topic: string,
    options: HandlerOptions & { raw: true },
    handle: (value: string | Uint8Array, context: Context) => Promise<void> | void,
  ): this;
  /** Handles messages whose values are any JSON. */
  handle(
    topic: string,
    options: HandlerOptions,
    handle: (value: unknown, context: Context) => Promise<void> | void,
  ): this;
  handle(
    topic: string,
    options: HandlerOptions & { schema?: StandardSchema; raw?: boolean },
    handle: (value: never, context: Context) => Promise<void> | void,
  ): this {
    const { group, concurrency = this.concurrency, schema, raw, ...effectDefaults } = options;
    const read: Handle = async (context) => {
      const { delivery } = context;
      // Typed by the signatures above.
      await handle((raw ? rawValue(delivery) : await readValue(delivery, schema)) as never, context);
    };
    checkConcurrency(concurrency);
    this.handlers.push({ topic, group, concurrency, effectDefaults, handle: read });
    return this;
  }

  /** Runs `middleware` around every handler. The first one is the outermost. */
  use(middleware: Middleware): this {
    this.middleware.push(middleware);
    return this;
  }

  /** The topics and groups that the worker handles. */
  get subscriptions(): readonly Pick<Handler, "topic" | "group">[] {
    return this.handlers;
  }

  /**
   * Runs until SIGTERM or SIGINT, then stops: leaves, finishes what it has, cancels what does not end in time, and
   * gives that back. A second signal ends the process with status 1, and so does a handler that ignores that it is
   * cancelled: it may block the thread that an error would be returned on.
   *
   * With {@link RunOptions.signal}, a handler that ignores that it is cancelled is an error instead.
   */
  async run(options: RunOptions = {}): Promise<void> {
    if (this.handlers.length === 0) throw new Invalid("the worker has no handler");
    if (this.isRunning) throw new Invalid("the worker is running already");
    const handlers = this.handlers.map((of) => ({ ...of, handle: around(this.middleware, of.handle) }));
    this.isRunning = true;
    try {
      await new Run(this.client, handlers, this.settings, options).ended;
    } finally {
      this.isRunning = false;
    }
  }
}

function checkConcurrency(concurrency: number): number {
  if (Number.isInteger(concurrency) && concurrency >= 1 && concurrency <= 1_000) return concurrency;
  throw new Invalid(`concurrency: must be between 1 and 1000 (got ${concurrency})`);
}
