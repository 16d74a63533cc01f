/** Settles deliveries, many with one request. */

import { sleep } from "../duration.js";
import { type Body, errorOfItem, OutcomeUnknown, Refused } from "../errors.js";
import type { Connection } from "../http.js";
import { call } from "../retry.js";
import type { SettleItem } from "./protocol.js";

/** How long the first of several settlements waits for others. */
const GATHER_MS = 5;
/** Settlements of one request. */
const GATHERED_MAX = 100;
/** How long to try. A message whose settlement fails is delivered again when its lease ends. */
const TIMEOUT_MS = 30_000;
/** The wait before items are sent again that the server could not settle now. */
const RETRY_DELAY_MS = 200;

interface Request {
  readonly item: SettleItem;
  readonly done: () => void;
  readonly failed: (error: unknown) => void;
}

export class Settler {
  private gathered: Request[] = [];
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly connection: Connection) {}

  /** Settles one delivery. */
  settle(item: SettleItem): Promise<void> {
    return new Promise((done, failed) => {
      this.gathered.push({ item, done, failed });
      if (this.gathered.length >= GATHERED_MAX) this.sendGathered();
      else this.timer ??= setTimeout(() => this.sendGathered(), GATHER_MS);
    });
  }

  private sendGathered(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    const requests = this.gathered;
    this.gathered = [];
    void this.send(requests);
  }

  /** Never throws: each request gets its result. */
  private async send(all: Request[]): Promise<void> {
    const began = performance.now();
    let requests = all;
    while (requests.length > 0) {
      const body = { items: requests.map(({ item }) => item) };
      const timeoutMs = Math.max(TIMEOUT_MS - (performance.now() - began), 1);
      let results: Body[];
      try {
        const answer = await call(this.connection, { path: "settle", body, isRepeatable: true, timeoutMs });
        if (!Array.isArray(answer.results)) throw new OutcomeUnknown("the response is not that of DriftQ");
        results = answer.results;
      } catch (error) {
        // One of them is wrong, and must not keep the others from being settled.
        if (error instanceof Refused && requests.length > 1)
          for (const request of requests) void this.send([request]);
        else for (const { failed } of requests) failed(error);
        return;
      }
      const isInTime = performance.now() - began + RETRY_DELAY_MS < TIMEOUT_MS;
      requests = requests.filter((request, at) => {
        const result = results[at] ?? {};
        if (typeof result.status === "string") request.done();
        // For example, its shard is moving to another node.
        else if (result.retryable === true && isInTime) return true;
        else request.failed(errorOfItem(result));
        return false;
      });
      if (requests.length > 0) await sleep(RETRY_DELAY_MS);
    }
  }
}
