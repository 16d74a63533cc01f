/** Renews the leases of messages in work. One request renews all of them. */

import type { Body } from "../errors.js";
import { type Connection, send } from "../http.js";

/** Items of one request. */
const ITEMS_MAX = 1_000;
/** The shortest time that a renewal waits for its answer. */
const ANSWER_MS_MIN = 250;

/** A message in work. */
export interface Held {
  readonly token: string;
  /** When the request that received it was answered. */
  readonly arrivedAt: number;
  /** Called once, with the reason, if the lease is lost. */
  readonly onLost: (reason: string) => void;
}

interface Lease extends Held {
  renewAt: number;
  endsAt: number;
}

export class Renewals {
  private readonly leases = new Map<string, Lease>();
  private isWaiting = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private timerAt = Number.POSITIVE_INFINITY;

  constructor(
    private readonly connection: Connection,
    private readonly leaseMs: number,
    private readonly maxProcessingMs: number,
  ) {}

  /** Renews the lease until {@link Renewals.end}. */
  begin(held: Held): void {
    const lease = {
      ...held,
      renewAt: held.arrivedAt + third(this.leaseMs),
      endsAt: held.arrivedAt + this.leaseMs,
    };
    this.leases.set(held.token, lease);
    this.wakeAt(this.actsAt(lease));
  }

  /** Stops to renew. */
  end(token: string): void {
    this.leases.delete(token);
    if (this.leases.size > 0) return;
    clearTimeout(this.timer);
    this.timerAt = Number.POSITIVE_INFINITY;
  }

  private wakeAt(at: number): void {
    if (at >= this.timerAt) return;
    clearTimeout(this.timer);
    this.timerAt = at;
    this.timer = setTimeout(() => this.act(), Math.max(at - performance.now(), 0));
  }

  /** When this lease needs the next action. */
  private actsAt(lease: Lease): number {
    return this.isWaiting || this.isOver(lease) ? lease.endsAt : Math.min(lease.renewAt, lease.endsAt);
  }

  /** Whether it is not renewed any more. */
  private isOver(lease: Lease): boolean {
    return lease.renewAt - lease.arrivedAt >= this.maxProcessingMs;
  }

  private act(): void {
    this.timerAt = Number.POSITIVE_INFINITY;
    this.cancelEnded();
    if (!this.isWaiting) this.renew();
    let next = Number.POSITIVE_INFINITY;
    for (const lease of this.leases.values()) next = Math.min(next, this.actsAt(lease));
    if (next < Number.POSITIVE_INFINITY) this.wakeAt(next);
  }

  private cancelEnded(): void {
    const now = performance.now();
    for (const lease of this.leases.values()) {
      if (now >= lease.endsAt) this.lose(lease, "the lease ended before it was renewed");
    }
  }

  private lose(lease: Lease, reason: string): void {
    this.leases.delete(lease.token);
    lease.onLost(reason);
  }

  /** Renews all leases, if one is due. */
  private renew(): void {
    const wanted = [...this.leases.values()].filter((lease) => !this.isOver(lease));
    wanted.sort((one, other) => one.renewAt - other.renewAt);
    wanted.length = Math.min(wanted.length, ITEMS_MAX);
    const first = wanted[0];
    if (!first || first.renewAt > performance.now()) return;
    this.isWaiting = true;
    const items = wanted.map(({ token }) => ({ op: "extend", token, lease_ms: this.leaseMs }));
    const sentAt = performance.now();
    const answerMs = Math.max(third(this.leaseMs), ANSWER_MS_MIN);
    send(this.connection, "POST", "settle", JSON.stringify({ items }), answerMs)
      .then(({ status, body }) => (status === 200 && Array.isArray(body.results) ? body.results : []))
      // The outcome is unknown.
      .catch((): Body[] => [])
      .then((results: Body[]) => {
        this.isWaiting = false;
        for (const [at, { token }] of wanted.entries()) this.answered(token, sentAt, results[at]);
        this.act();
      });
  }

  private answered(token: string, sentAt: number, result: Body | undefined): void {
    const lease = this.leases.get(token);
    if (!lease) return;
    if (result?.status === "extended") {
      lease.endsAt = sentAt + this.leaseMs;
      lease.renewAt = sentAt + third(this.leaseMs);
    } else if (result?.retryable === false) {
      this.lose(lease, typeof result.message === "string" ? result.message : "the renewal was rejected");
    } else {
      lease.renewAt = performance.now() + this.leaseMs / 10;
    }
  }
}

/** About a third, so that the renewals of many workers do not come together. */
function third(leaseMs: number): number {
  return (leaseMs * (0.9 + 0.2 * Math.random())) / 3;
}
