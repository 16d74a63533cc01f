/** The work on one delivery, from its receipt until it is settled. */

import { within } from "../duration.js";
import { LeaseLost, Refused, textOf } from "../errors.js";
import type { components } from "../wire.js";
import type { Engine } from "./engine.js";
import { FLAG, type SettleItem } from "./protocol.js";

/** How long a cancelled handler may take to end. */
export const CANCEL_MS = 2_000;
/** The server keeps this much of a reason. */
const REASON_MAX = 1_024;

type Delivery = components["schemas"]["Delivery"];

type Event =
  | { is: "ended"; item: SettleItem | undefined }
  | { is: "lost"; reason: string }
  | { is: "cancelled" };

export class InWork {
  /** For the report of handlers that do not end. */
  readonly name: string;
  private readonly token: string;
  private readonly first: Promise<Event>;
  private readonly ended: Promise<Event>;
  private tell: (event: Event) => void = () => {};
  private tellEnded: (event: Event) => void = () => {};

  constructor(
    private readonly engine: Engine,
    readonly number: number,
    readonly slot: number,
    private readonly delivery: Delivery,
    arrivedAt: number,
  ) {
    const { id, topic, group, lease } = delivery;
    this.name = `${id} of ${topic}/${group}, attempt ${lease.attempt}`;
    this.token = lease.token;
    // A promise keeps its first event.
    this.first = new Promise((resolve) => {
      this.tell = resolve;
    });
    this.ended = new Promise((resolve) => {
      this.tellEnded = resolve;
    });
    const onLost = (reason: string) => this.tell({ is: "lost", reason });
    engine.renewals.begin({ token: this.token, arrivedAt, onLost });
  }

  /** The handler has ended. */
  end(item: SettleItem | undefined): void {
    this.tell({ is: "ended", item });
    this.tellEnded({ is: "ended", item });
  }

  /** The worker stops, and no longer waits. */
  cancel(): void {
    this.tell({ is: "cancelled" });
  }

  /** Returns when the delivery is settled, or false if its handler ignores that it is cancelled. */
  async run(): Promise<boolean> {
    const { engine } = this;
    let event = await this.first;
    if (event.is === "lost") {
      this.cancelHandler(FLAG.lost, `the lease is lost: ${event.reason}`);
      this.reportLost(event.reason);
      await this.ended;
      return true;
    }
    if (event.is === "cancelled") {
      this.cancelHandler(FLAG.stopping, "the worker stops");
      if (await within(CANCEL_MS, this.ended)) event = await this.ended;
    }
    if (event.is !== "ended") {
      // It may still act, so its message is not released.
      engine.renewals.end(this.token);
      return false;
    }
    if (event.item) await this.settle(event.item);
    engine.renewals.end(this.token);
    return true;
  }

  private cancelHandler(flag: number, reason: string): void {
    Atomics.store(this.engine.config.flags, this.slot, flag);
    this.engine.post({ type: "cancel", number: this.number, reason });
  }

  private reportLost(reason: string): void {
    const { id, topic, group, lease } = this.delivery;
    this.engine.post({ type: "lost", id, topic, group, attempt: lease.attempt, reason });
  }

  private async settle(item: SettleItem): Promise<void> {
    try {
      await this.trySettle(item);
    } catch (error) {
      // An effect of the message is in doubt.
      const isUnfinished =
        item.op === "ack" && error instanceof Refused && error.code === "FAILED_PRECONDITION";
      if (isUnfinished) return this.settle({ op: "nack", reason: error.message });
      this.engine.log("warn", "a message was not settled", { message: this.name, error: textOf(error) });
    }
  }

  private async trySettle(item: SettleItem): Promise<void> {
    const reason = item.reason ? { reason: item.reason.slice(0, REASON_MAX).toWellFormed() } : {};
    try {
      await this.engine.settler.settle({ ...item, ...reason, token: this.token });
    } catch (error) {
      // Its result does not count, and another worker has it.
      if (!(error instanceof LeaseLost)) throw error;
      this.reportLost(error.message);
    }
  }
}
