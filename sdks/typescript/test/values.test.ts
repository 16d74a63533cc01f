/** Values: schemas of several libraries, integers, bytes. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Invalid, Worker } from "@driftq/sdk";
import { Broker } from "@driftq/sdk/testing";
import * as v from "valibot";
import { z } from "zod";

const BIG = "12345678901234567890";

let broker: Broker;
before(async () => {
  broker = await Broker.start({ topics: ["zod", "valibot", "times", "integers", "raw", "bytes", "throws"] });
});
after(() => broker.stop());

/** Why the first dead letter of a topic is one. */
async function lastError(topic: string): Promise<string> {
  const [dead] = await broker.deadLetters(topic);
  assert.ok(dead);
  return (dead.dlq as { last_error: string }).last_error;
}

const worker = () => new Worker({ client: broker.client });
const inGroup = { group: "biller" };

for (const [topic, schema] of [
  ["zod", z.object({ id: z.string(), cents: z.number().int() })],
  ["valibot", v.object({ id: v.string(), cents: v.pipe(v.number(), v.integer()) })],
] as const) {
  test(`${topic} validates what is produced and what is received`, async () => {
    const { client } = broker;
    await assert.rejects(client.produce(topic, { id: 7 } as never, { schema }), Invalid);
    await client.produce(topic, { id: "77", cents: 1200 }, { schema });
    await client.produce(topic, { id: "78", cents: 0.5 });
    const cents: number[] = [];
    await broker.drain(
      worker().handle(topic, { ...inGroup, schema }, (order) => {
        cents.push(order.cents);
      }),
    );
    assert.deepEqual(cents, [1200]);
    const error = await lastError(topic);
    assert.match(error, /^decode: cents: /);
  });
}

test("a handler gets what the schema returns, and the message has what was given", async () => {
  const schema = z.object({ at: z.iso.datetime().transform((text) => new Date(text)) });
  await broker.client.produce("times", { at: "2026-11-14T12:00:00Z" }, { schema });
  const years: number[] = [];
  await broker.drain(
    worker().handle("times", { ...inGroup, schema }, ({ at }) => {
      years.push(at.getUTCFullYear());
    }),
  );
  assert.deepEqual(years, [2026]);
});

test("a schema that throws fails the attempt, because the value may be valid", async () => {
  let calls = 0;
  const schema = z.unknown().transform((value) => {
    calls += 1;
    if (calls === 1) throw new TypeError("a bug in the schema");
    return value;
  });
  await broker.client.produce("throws", "1");
  await broker.drain(worker().handle("throws", { ...inGroup, schema }, () => {}));
  assert.equal(calls, 2);
});

test("an integer beyond 2^53 is an error", async () => {
  const { client } = broker;
  await assert.rejects(client.produce("integers", { id: Number(BIG) }), /beyond 2\^53/);
  await assert.rejects(client.produce("integers", { ratio: Number.NaN }), /NaN is not JSON/);
  await assert.rejects(client.produce("integers", { id: 1n }), Invalid);
  await client.produce("integers", `{"id":${BIG},"text":"\\"9007199254740993"}`, { raw: true });
  await client.produce("integers", { text: BIG, ratio: 0.1234567890123456, max: 2 ** 53 - 1 });
  const received: unknown[] = [];
  await broker.drain(
    worker().handle("integers", inGroup, (value) => {
      received.push(value);
    }),
  );
  assert.deepEqual(received, [{ text: BIG, ratio: 0.1234567890123456, max: 2 ** 53 - 1 }]);
  const error = await lastError("integers");
  assert.match(error, new RegExp(`^decode: .*${BIG}`));
});

test("a raw handler gets the text", async () => {
  await broker.client.produce("raw", `{"id":${BIG}}`, { raw: true });
  const received: unknown[] = [];
  await broker.drain(
    worker().handle("raw", { ...inGroup, raw: true }, (value) => {
      received.push(value);
    }),
  );
  assert.deepEqual(received, [`{"id":${BIG}}`]);
});

test("bytes come back as they were sent", async () => {
  // Not valid as UTF-8, and more than one chunk of base64.
  const sent = Uint8Array.from({ length: 30_000 }, (_, at) => at % 256);
  await broker.client.produce("bytes", sent);
  const received: unknown[] = [];
  await broker.drain(
    worker().handle("bytes", { ...inGroup, raw: true }, (value) => {
      received.push(value);
    }),
  );
  assert.deepEqual(received, [sent]);
});
