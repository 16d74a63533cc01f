/** Receives messages, as many as there are free slots. */

import { type Body, retryAfterMs, textOf } from "../errors.js";
import { send } from "../http.js";
import type { components } from "../wire.js";
import type { Engine } from "./engine.js";

/** How long a receive waits for a message. */
const WAIT_MS = 20_000;
/** How much longer its response may take. */
const ANSWER_MS = 15_000;
const BACKOFF_MS_MIN = 50;
/** The longest wait after a receive that failed. */
const BACKOFF_MS_MAX = 5_000;
/** A server that asks for no wait at all must not be asked in a tight loop. */
const RETRY_MS_MIN = 10;

type Delivery = components["schemas"]["Delivery"];

/** The handler has this many slots. A free slot is a message that it can take now. */
export class Slots {
  private wake: (() => void) | undefined;

  constructor(private free: number) {}

  /** Waits for a free slot and returns how many there are. None if `stopped` comes first. */
  async available(stopped: () => boolean): Promise<number> {
    while (this.free === 0 && !stopped()) {
      await new Promise<void>((resolve) => {
        this.wake = resolve;
      });
      // One response settles many messages. All of their slots are free in the next turn.
      await new Promise(setImmediate);
    }
    return stopped() ? 0 : this.free;
  }

  take(): void {
    this.free -= 1;
  }

  release(): void {
    this.free += 1;
    this.look();
  }

  /** Looks again whether the worker stops. */
  look(): void {
    this.wake?.();
    this.wake = undefined;
  }
}

/** Receives until the worker stops. */
export async function receiveAll(engine: Engine, index: number, slots: Slots): Promise<void> {
  let backoffMs = BACKOFF_MS_MIN;
  for (;;) {
    const max = await slots.available(() => engine.isStopping);
    if (max === 0) return;
    try {
      const { messages, arrivedAt } = await receive(engine, index, max);
      backoffMs = BACKOFF_MS_MIN;
      await engine.begin(index, slots, messages.slice(0, max), arrivedAt);
    } catch (error) {
      if (engine.isStopping) return;
      const { topic, group } = engine.config.subscriptions[index] ?? {};
      engine.log("warn", "receiving failed; trying again", { topic, group, error: textOf(error) });
      const afterMs = error instanceof ReceiveFailed ? error.afterMs : undefined;
      const waitMs = Math.max(afterMs ?? backoffMs * (0.5 + Math.random() / 2), RETRY_MS_MIN);
      backoffMs = Math.min(backoffMs * 2, BACKOFF_MS_MAX);
      await engine.sleepUnlessStopping(waitMs);
    }
  }
}

class ReceiveFailed extends Error {
  constructor(
    reason: string,
    /** The wait that the server asks for. */
    readonly afterMs?: number,
  ) {
    super(reason);
  }
}

async function receive(
  { config }: Engine,
  index: number,
  max: number,
): Promise<{ messages: Delivery[]; arrivedAt: number }> {
  const { topic, group, concurrency } = config.subscriptions[index] as (typeof config.subscriptions)[number];
  const { owner, version, host } = config;
  const body: components["schemas"]["Receive"] = {
    topic,
    group,
    owner,
    max,
    wait_ms: WAIT_MS,
    lease_ms: config.leaseMs,
    worker: { id: owner, sdk: "typescript", version, host, pid: process.pid, concurrency },
  };
  const reply = await send(config.connection, "POST", "receive", JSON.stringify(body), WAIT_MS + ANSWER_MS);
  const arrivedAt = performance.now();
  if (reply.status !== 200) {
    const { message } = reply.body;
    throw new ReceiveFailed(
      typeof message === "string" ? message : `status ${reply.status}`,
      retryAfterMs(reply.body),
    );
  }
  const { messages } = reply.body;
  if (!Array.isArray(messages)) throw new ReceiveFailed("the response is not that of DriftQ");
  return { messages: messages.filter(isDelivery), arrivedAt };
}

/** The lease of one that cannot be read ends, and it is delivered again. */
function isDelivery(message: Body): boolean {
  return typeof message?.id === "string" && typeof (message.lease as Body | undefined)?.token === "string";
}
