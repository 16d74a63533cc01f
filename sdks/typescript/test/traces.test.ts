/** Traces with OpenTelemetry. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Worker } from "@driftq/sdk";
import { traced } from "@driftq/sdk/otel";
import { Broker } from "@driftq/sdk/testing";
import { context, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";

test("the first attempt continues the trace of the producer, and a retry links to it", async () => {
  const exporter = new InMemorySpanExporter();
  trace.setGlobalTracerProvider(
    new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }),
  );
  context.setGlobalContextManager(new AsyncLocalStorageContextManager());
  const broker = await Broker.start({ topics: ["orders", "receipts"] });
  const traceparent = `00-${TRACE}-00f067aa0ba902b7-01`;
  await broker.client.continuing({ traceparent }).produce("orders", 1);
  const seen: unknown[] = [];
  const worker = new Worker({ client: broker.client })
    .use(traced())
    .handle("orders", { group: "biller" }, async (_, ctx) => {
      seen.push(trace.getActiveSpan()?.spanContext().spanId);
      if (ctx.delivery.attempts === 1) throw new Error("again");
      await ctx.client.produce("receipts", 1);
    });
  await broker.drain(worker);
  const { body } = await broker.client.request("POST", "receive", {
    topic: "receipts",
    group: "g",
    owner: "test",
  });
  await broker.stop();
  const [first, second] = exporter.getFinishedSpans();
  assert.ok(first && second);
  assert.equal(first.name, "process orders");
  assert.equal(first.spanContext().traceId, TRACE);
  assert.notEqual(second.spanContext().traceId, TRACE);
  assert.equal(second.links[0]?.context.traceId, TRACE);
  assert.deepEqual(seen, [first.spanContext().spanId, second.spanContext().spanId]);
  const [receipt] = body.messages as { trace: { traceparent: string } }[];
  assert.match(receipt?.trace.traceparent ?? "", new RegExp(second.spanContext().spanId));
});
