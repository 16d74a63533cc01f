/**
 * The part of a worker that is not a handler: it receives, renews, settles, leaves, and listens for signals. It
 * runs on a thread of its own, so a handler that blocks the main thread delays none of that.
 */

import { within } from "../duration.js";
import { textOf } from "../errors.js";
import type { LogFields, LogLevel } from "../logger.js";
import { call } from "../retry.js";
import type { components } from "../wire.js";
import { CANCEL_MS, InWork } from "./delivery.js";
import { type EngineConfig, FLAG, type FromEngine, type ToEngine, type Work } from "./protocol.js";
import { receiveAll, Slots } from "./receive.js";
import { Renewals } from "./renew.js";
import { Settler } from "./settle.js";

/** How long the server may take to answer that the worker has left. */
const LEAVE_MS = 5_000;
/** npm and tsx repeat a signal that the terminal has sent to them and to the worker. That is not a second one. */
export const REPEAT_MS = 100;

type Delivery = components["schemas"]["Delivery"];

export class Engine {
  readonly renewals: Renewals;
  readonly settler: Settler;
  isStopping = false;
  private signalledAt: number | undefined;
  /** Called when the worker begins to stop. */
  private readonly onStop = new Set<() => void>();
  private readonly inWork = new Map<number, InWork>();
  private readonly freeSlots: number[];
  private readonly slots: Slots[] = [];
  private lastNumber = 0;
  /** Called when no delivery is in work any more. */
  private onIdle: () => void = () => {};

  constructor(
    readonly config: EngineConfig,
    readonly post: (message: FromEngine) => void,
    /** Ends the process because a second signal came. */
    private readonly onInterrupt: () => void,
  ) {
    const { connection, leaseMs, maxProcessingMs } = config;
    this.renewals = new Renewals(connection, leaseMs, maxProcessingMs);
    this.settler = new Settler(connection);
    this.freeSlots = Array.from(config.flags.keys());
  }

  /** Runs until the worker has stopped. Returns the deliveries whose handlers did not end. */
  async run(): Promise<string[]> {
    const { config } = this;
    const receiving = config.subscriptions.map(({ concurrency }, index) => {
      const slots = new Slots(concurrency);
      this.slots.push(slots);
      return receiveAll(this, index, slots);
    });
    await this.sleepUnlessStopping();
    await this.leave();
    const ended = Promise.all(receiving).then(() => this.allEnded());
    if (await within(config.shutdownTimeoutMs, ended)) return [];
    for (const work of this.inWork.values()) work.cancel();
    // Those that end are given back within the same time again.
    await within(CANCEL_MS * 2, ended);
    return [...this.inWork.values()].map(({ name }) => name);
  }

  receive(message: ToEngine): void {
    if (message.type === "ended") this.inWork.get(message.number)?.end(message.item);
    else if (message.type === "stop") this.stop();
    else this.onSignal();
  }

  /** The first signal stops the worker, and the second one ends the process. */
  onSignal(): void {
    const now = performance.now();
    this.signalledAt ??= now;
    if (now - this.signalledAt >= REPEAT_MS) this.onInterrupt();
    else this.stop();
  }

  log(level: LogLevel, message: string, fields: LogFields): void {
    this.post({ type: "log", level, message, fields });
  }

  /** Sleeps until the worker stops, or for `ms`. */
  sleepUnlessStopping(ms?: number): Promise<void> {
    if (this.isStopping) return Promise.resolve();
    return new Promise((resolve) => {
      let timer: ReturnType<typeof setTimeout> | undefined;
      const wake = () => {
        clearTimeout(timer);
        this.onStop.delete(wake);
        resolve();
      };
      this.onStop.add(wake);
      if (ms !== undefined) timer = setTimeout(wake, ms);
    });
  }

  /** Begins the work on deliveries. Returns when those that came too late are given back. */
  async begin(subscription: number, slots: Slots, deliveries: Delivery[], arrivedAt: number): Promise<void> {
    if (this.isStopping) {
      // They were on their way while the worker left.
      await Promise.all(deliveries.map((delivery) => this.giveBack(delivery)));
      return;
    }
    const work: Work[] = [];
    for (const delivery of deliveries) {
      const slot = this.freeSlots.pop() as number;
      this.lastNumber += 1;
      const number = this.lastNumber;
      Atomics.store(this.config.flags, slot, FLAG.none);
      const inWork = new InWork(this, number, slot, delivery, arrivedAt);
      this.inWork.set(number, inWork);
      slots.take();
      void inWork.run().then((isSettled) => {
        // The slot of a handler that may still act stays taken.
        if (isSettled) this.end(inWork, slots);
      });
      work.push({ number, slot, delivery });
    }
    if (work.length > 0) this.post({ type: "work", subscription, work });
  }

  private end({ number, slot }: InWork, slots: Slots): void {
    this.inWork.delete(number);
    this.freeSlots.push(slot);
    slots.release();
    if (this.inWork.size === 0) this.onIdle();
  }

  private stop(): void {
    this.isStopping = true;
    for (const wake of this.onStop) wake();
    for (const slots of this.slots) slots.look();
  }

  private async leave(): Promise<void> {
    const body = { worker: this.config.owner };
    try {
      await call(this.config.connection, { path: "leave", body, isRepeatable: true, timeoutMs: LEAVE_MS });
    } catch (error) {
      // Polls that still wait may get messages, which are then given back.
      this.log("warn", "the worker could not leave", { error: textOf(error) });
    }
  }

  private async giveBack({ id, lease }: Delivery): Promise<void> {
    try {
      await this.settler.settle({ op: "nack", release: true, token: lease.token });
    } catch (error) {
      this.log("warn", "a message was not given back", { message: id, error: textOf(error) });
    }
  }

  private allEnded(): Promise<void> {
    if (this.inWork.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.onIdle = resolve;
    });
  }
}
