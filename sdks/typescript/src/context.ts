/** What a handler has besides the value of its message. */

import type { Client } from "./client.js";
import { type CommitOptions, type CommitScope, commit } from "./commit.js";
import { type EffectOptions, type Execution, type Finish, recordAll, runEffect } from "./effect.js";
import type { Trace } from "./http.js";
import { type LogFields, type Logger, quietly } from "./logger.js";
import { type Message, type MessageOptions, message } from "./message.js";
import { Cancelled } from "./outcomes.js";
import type { components } from "./wire.js";

/** A message, leased to this worker for one attempt. Its fields have the names of the API. */
export type Delivery = components["schemas"]["Delivery"];

/** The defaults of the effects of a handler. */
export type EffectDefaults = Pick<EffectOptions<unknown>, "onDoubt" | "window">;

/** What a context is made of. */
export interface ContextParts {
  readonly delivery: Delivery;
  readonly client: Client;
  readonly owner: string;
  readonly logger: Logger;
  readonly effectDefaults: EffectDefaults;
  /** Whether the handler has to end. It is current also while the main thread is blocked. */
  readonly isCancelled: () => boolean;
}

/** The delivery that a handler works on. */
export class Context {
  readonly delivery: Delivery;
  readonly log: Logger;
  private client_: Client;
  private readonly parts: ContextParts;
  /** Made when it is used, because it costs more than the rest of a context. */
  private controller: AbortController | undefined;
  private cancelled: Cancelled | undefined;
  private readonly committing: CommitScope;
  /** Effects and commits that run, also if the handler does not wait for them. */
  private readonly running = new Set<Promise<unknown>>();

  constructor(parts: ContextParts) {
    const { delivery, client, logger } = parts;
    const { run_id } = delivery.envelope ?? {};
    const fields: LogFields = {
      id: delivery.id,
      attempt: delivery.lease.attempt,
      ...(run_id ? { run_id } : {}),
    };
    this.parts = parts;
    this.delivery = delivery;
    this.log = quietly(logger, fields);
    // What the handler produces continues the trace of its message.
    this.client_ = client.continuing(delivery.trace);
    this.committing = {
      leaseToken: delivery.lease.token,
      isCommitting: false,
      isCommitted: false,
      pending: [],
    };
  }

  /** The id of the message. */
  get id(): string {
    return this.delivery.id;
  }

  /** The number of this attempt. */
  get attempt(): number {
    return this.delivery.lease.attempt;
  }

  /** Aborted when the handler has to end: its lease is lost, or the worker stops and no longer waits. */
  get signal(): AbortSignal {
    if (!this.controller) {
      this.controller = new AbortController();
      if (this.cancelled) this.controller.abort(this.cancelled);
    }
    return this.controller.signal;
  }

  /** The client of the worker. Its requests continue the trace of the message. */
  get client(): Client {
    return this.client_;
  }

  /**
   * Whether the handler has to end. Unlike `signal`, it is current also for a handler that lets nothing else
   * run.
   */
  get isCancelled(): boolean {
    return this.cancelled !== undefined || this.parts.isCancelled();
  }

  /** Whether the message is committed. */
  get isCommitted(): boolean {
    return this.committing.isCommitted;
  }

  /** Executes an effect of this message, or returns its recorded result. The key names it in its group. */
  effect<T>(
    key: string,
    options: EffectOptions<T>,
    execute: (execution: Execution) => Promise<T> | T,
  ): Promise<T> {
    const scope = {
      connection: this.client_.connection,
      leaseToken: this.delivery.lease.token,
      owner: this.parts.owner,
      throwIfCancelled: () => {
        if (this.isCancelled) throw this.cancelled ?? new Cancelled("the handler is cancelled");
      },
      finishInCommit: (finish: Finish) => this.committing.pending.push(finish),
    };
    return this.track(runEffect(scope, key, { ...this.parts.effectDefaults, ...options }, execute));
  }

  /** Acks the message, produces the next ones and records outcomes at once. It is the last thing that a handler does. */
  commit(options: CommitOptions = {}): Promise<void> {
    const running = commit(this.client_.connection, this.committing, options);
    return this.track(running);
  }

  private track<T>(running: Promise<T>): Promise<T> {
    const ended: Promise<unknown> = running.catch(() => {}).finally(() => this.running.delete(ended));
    this.running.add(ended);
    return running;
  }

  /** A message for {@link Context.commit}. */
  message(topic: string, value: unknown, options: MessageOptions = {}): Message {
    return message(topic, value, options);
  }

  /** Makes the requests of the handler continue another trace, for example that of a span around it. */
  continueTrace(trace: Trace): void {
    this.client_ = this.client_.continuing(trace);
  }

  /** @internal */
  cancel(reason: string): void {
    this.cancelled ??= new Cancelled(reason);
    this.controller?.abort(this.cancelled);
  }

  /**
   * Waits for what still runs, for example the other effects of a `Promise.all` that has failed. Then records the
   * outcomes that wait for a commit that does not come. @internal
   */
  async end(): Promise<void> {
    while (this.running.size > 0) await Promise.all(this.running);
    const outcomes = this.committing.pending;
    this.committing.pending = [];
    if (outcomes.length > 0) await recordAll(this.client_.connection, outcomes);
  }
}
