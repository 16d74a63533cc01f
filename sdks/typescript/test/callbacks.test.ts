/** Errors of code of the user: each ends what it belongs to, and never the worker. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { EffectFailed, NotHappened, Reject, Worker, WorkerError } from "@driftq/sdk";
import { Broker } from "@driftq/sdk/testing";

let broker: Broker;
before(async () => {
  const topics = [
    "log",
    "lost",
    "middleware",
    "odd",
    "probe",
    "nested",
    "result",
    "replay",
    "floating",
    "stuck",
  ];
  broker = await Broker.start({ topics });
});
after(() => broker.stop());

/** Why the first dead letter of a topic is one. */
async function lastError(topic: string): Promise<string> {
  const [dead] = await broker.deadLetters(topic);
  assert.ok(dead);
  return (dead.dlq as { last_error: string }).last_error;
}

const inGroup = { group: "biller" };
const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const worker = (options = {}) => new Worker({ client: broker.client, logger: silent, ...options });

test("a logger that throws changes nothing", async () => {
  const fail = () => {
    throw new Error("disk full");
  };
  const logger = { debug: fail, info: fail, warn: fail, error: fail };
  await broker.client.produce("log", 1);
  let handled = 0;
  await broker.drain(
    worker({ logger }).handle("log", inGroup, (_, ctx) => {
      ctx.log.info("handling", {});
      handled += 1;
    }),
  );
  assert.equal(handled, 1);
});

test("onLost is called, and may throw", async () => {
  const lost: unknown[] = [];
  const onLost = (of: unknown) => {
    lost.push(of);
    throw new Error("a bug of the user");
  };
  await broker.client.produce("lost", 1);
  await broker.drain(
    worker({ onLost, lease: "1s" }).handle("lost", inGroup, async (_, { attempt, signal }) => {
      if (attempt > 1) return;
      await broker.advance("1h");
      // The next renewal finds out.
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
    }),
  );
  assert.equal(lost.length, 1);
  assert.equal((lost[0] as { attempt: number }).attempt, 1);
});

test("middleware runs from the outside in, and its error fails the attempt", async () => {
  const order: string[] = [];
  await broker.client.produce("middleware", 1);
  const of = worker().handle("middleware", inGroup, () => {
    order.push("handler");
  });
  of.use(async (ctx, next) => {
    order.push(`outer ${ctx.delivery.attempts}`);
    await next();
    if (ctx.delivery.attempts === 1) throw new Error("after the handler");
  });
  of.use(async (_, next) => {
    order.push("inner");
    await next();
  });
  await broker.drain(of);
  assert.deepEqual(order, ["outer 1", "inner", "handler", "outer 2", "inner", "handler"]);
});

test("anything can be thrown", async () => {
  const circle = new Error("a circle of causes");
  circle.cause = circle;
  const odd = [undefined, null, "text", { toString: null }, circle, new Error(`\ud800${"x".repeat(5_000)}`)];
  for (const index of odd.keys()) await broker.client.produce("odd", index);
  const handled: unknown[] = [];
  await broker.drain(
    worker().handle("odd", inGroup, (index, ctx) => {
      if (ctx.delivery.attempts === 1) throw odd[index as number];
      handled.push(index);
    }),
  );
  assert.deepEqual(handled.sort(), [...odd.keys()]);
});

test("a probe that returns neither answer leaves the effect in doubt", async () => {
  await broker.client.produce("probe", 1);
  let calls = 0;
  let probes = 0;
  const result = await new Promise((resolve) => {
    const of = worker().handle("probe", { ...inGroup, onDoubt: "probe" }, async (_, ctx) => {
      const probe = () => {
        probes += 1;
        return (probes === 1 ? undefined : { happened: true, result: "found" }) as never;
      };
      const charge = async () => {
        calls += 1;
        throw new Error("timeout");
      };
      resolve(await ctx.effect("charge", { probe }, charge));
    });
    void broker.drain(of);
  });
  assert.deepEqual([result, calls, probes], ["found", 1, 2]);
});

test("an effect that did not happen says nothing about the one around it", async () => {
  await broker.client.produce("nested", 1);
  let inner: unknown;
  await broker.runOnce(
    worker().handle("nested", { ...inGroup, onDoubt: "park" }, async (_, ctx) => {
      await ctx.effect("outer", {}, () =>
        ctx
          .effect("inner", {}, () => {
            throw new NotHappened("refused");
          })
          .catch((error) => {
            inner = error;
            throw error;
          }),
      );
    }),
  );
  assert.ok(inner instanceof EffectFailed && !inner.isFinal);
  const path = "effects?scope=effect/nested/biller&key=outer";
  const { body } = await broker.client.request("GET", path);
  assert.equal(body.state, "PARKED");
});

test("a result that is not JSON makes a dead letter, and the effect has succeeded", async () => {
  await broker.client.produce("result", 1);
  await broker.drain(
    worker().handle("result", { ...inGroup, onDoubt: "park" }, async (_, ctx) => {
      await ctx.effect("charge", {}, () => 1n);
    }),
  );
  const error = await lastError("result");
  assert.match(error, /^the effect succeeded/);
  const { body } = await broker.client.request("GET", "effects?scope=effect/result/biller&key=charge");
  assert.equal(body.state, "SUCCEEDED");
});

test("the first execution returns what later attempts read", async () => {
  await broker.client.produce("replay", 1);
  const results: unknown[] = [];
  await broker.drain(
    worker().handle("replay", { ...inGroup, onDoubt: "retry" }, async (_, ctx) => {
      const run = () => ({ at: new Date(0), nothing: undefined });
      results.push(
        await ctx.effect<unknown>("charge", {}, run),
        await ctx.effect<unknown>("none", {}, () => {}),
      );
      if (ctx.delivery.attempts === 1) throw new Error("again");
    }),
  );
  const expected = { at: "1970-01-01T00:00:00.000Z" };
  assert.deepEqual(results, [expected, undefined, expected, undefined]);
});

test("a commit that the handler does not wait for is waited for", async () => {
  await broker.client.produce("floating", 1);
  let attempts = 0;
  broker.fail({ next: "commit", how: "lost_reply", times: 2 });
  await broker.drain(
    worker().handle("floating", inGroup, (_, ctx) => {
      attempts += 1;
      void ctx.commit({ result: "done" });
    }),
  );
  assert.equal(attempts, 1);
});

test("a message is settled when all of its effects have ended", async () => {
  const [topic] = await broker.topics("parallel");
  await broker.client.produce(topic, 1);
  let calls = 0;
  await broker.drain(
    worker().handle(topic, { ...inGroup, onDoubt: "park" }, async (_, ctx) => {
      const slow = ctx.effect("slow", {}, async () => {
        calls += 1;
        await new Promise((resolve) => setTimeout(resolve, 100));
      });
      const failed = ctx.delivery.attempts === 1 ? [Promise.reject(new Error("the other one"))] : [];
      await Promise.all([slow, ...failed]);
    }),
  );
  // The second attempt finds its outcome: it was neither in progress nor in doubt.
  assert.equal(calls, 1);
});

test("a handler that ignores its cancellation is an error that names its message", async () => {
  const { id } = await broker.client.produce("stuck", 1);
  const stop = new AbortController();
  let reason: unknown;
  const of = worker({ shutdownTimeout: 10 }).handle("stuck", inGroup, (_, ctx) => {
    setTimeout(() => stop.abort(), 50);
    return new Promise<void>(() => {
      ctx.signal.addEventListener("abort", () => {
        reason = ctx.signal.reason;
      });
    });
  });
  await assert.rejects(of.run({ signal: stop.signal }), (error) => {
    return error instanceof WorkerError && error.message.includes(id);
  });
  assert.match(String(reason), /the worker stops/);
});

test("a rejection of the handler is not tried again", async () => {
  await broker.client.produce("log", 2);
  await broker.drain(
    worker().handle("log", inGroup, () => {
      throw new Reject("not ours");
    }),
  );
  const error = await lastError("log");
  assert.equal(error, "not ours");
});
