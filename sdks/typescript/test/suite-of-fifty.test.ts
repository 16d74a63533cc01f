/** The suite of a user: 50 tests, each with a server of its own and a retry after hours. It ends in seconds. */

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Retry, Worker } from "@driftq/sdk";
import { Broker } from "@driftq/sdk/testing";

const TESTS = 50;
const SUITE_MS = 5_000;

let began: number;
before(() => {
  began = performance.now();
});
after(() => {
  const tookMs = Math.round(performance.now() - began);
  console.log(`${TESTS} tests with retries of hours: ${tookMs} ms`);
  assert.ok(tookMs <= SUITE_MS, `${tookMs} ms`);
});

describe("a worker that fails for hours", { concurrency: 4 }, () => {
  for (let hours = 1; hours <= TESTS; hours += 1) {
    test(`succeeds after ${hours} h`, async () => {
      const broker = await Broker.start({ topics: ["orders", "receipts"] });
      const worker = new Worker({ client: broker.client }).handle(
        "orders",
        { group: "biller" },
        async (order, ctx) => {
          if (ctx.delivery.attempts === 1) throw new Retry("not yet", { after: `${hours}h` });
          await ctx.commit({ produce: [ctx.message("receipts", order)] });
        },
      );
      await broker.client.produce("orders", { id: hours });
      await broker.drain(worker);
      assert.deepEqual(await broker.values("receipts"), [{ id: hours }]);
      await broker.stop();
    });
  }
});
