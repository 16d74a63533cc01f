/** The suite of a user: 50 tests of a worker that retries after hours. It ends in seconds. */

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Retry, Worker } from "@driftq/sdk";
import { Broker } from "@driftq/sdk/testing";

const TESTS = 50;
const SUITE_MS = 5_000;

describe("a worker that fails for hours", () => {
  let began: number;
  let broker: Broker;
  before(async () => {
    began = performance.now();
    broker = await Broker.start();
  });
  after(async () => {
    await broker.stop();
    const tookMs = Math.round(performance.now() - began);
    console.log(`${TESTS} tests with retries of hours: ${tookMs} ms`);
    assert.ok(tookMs <= SUITE_MS, `${tookMs} ms`);
  });

  for (let hours = 1; hours <= TESTS; hours += 1) {
    test(`succeeds after ${hours} h`, async () => {
      const [orders, receipts] = await broker.topics("orders", "receipts");
      const worker = new Worker({ client: broker.client }).handle(
        orders,
        { group: "biller" },
        async (order, ctx) => {
          if (ctx.delivery.attempts === 1) throw new Retry("not yet", { after: `${hours}h` });
          await ctx.commit({ produce: [ctx.message(receipts, order)] });
        },
      );
      await broker.client.produce(orders, { id: hours });
      await broker.drain(worker);
      assert.deepEqual(await broker.values(receipts), [{ id: hours }]);
    });
  }
});
