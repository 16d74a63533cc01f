/**
 * The agent of the scenarios (`sdks/scenarios`): a worker whose handler is a list of steps. It takes commands as
 * lines of JSON on its standard input, and writes events as lines of JSON.
 */

import { createInterface } from "node:readline";
import {
  Client,
  DriftqError,
  type Message,
  message,
  type Receipt,
  Refused,
  type StandardSchema,
  Worker,
} from "@driftq/sdk";
import { event } from "./event.js";
import { Gate } from "./gate.js";
import { type Order, run, type Step } from "./steps.js";

/** A command of the runner. */
type Command =
  /** Produce messages, one by one or as a batch. */
  | { do: "produce"; messages: ToProduce[]; batch?: boolean }
  /** Run a worker until the process gets SIGTERM. */
  | ({ do: "work" } & Work)
  /** Let the handlers continue that wait for it. */
  | { do: "go" };

interface ToProduce {
  topic: string;
  value: unknown;
  idempotency_key?: string;
}

interface Work {
  handlers: { topic: string; group: string; steps: Step[] }[];
  concurrency?: number;
  lease_ms?: number;
  max_processing_ms?: number;
  shutdown_timeout_ms?: number;
}

const url = variable("DRIFTQ_URL");
const provider = variable("PROVIDER_URL");
const client = new Client(url);
const go = new Gate();

/** An object with an id. What else it has does not matter. */
const order: StandardSchema<Order> = {
  "~standard": {
    version: 1,
    vendor: "driftq-agent",
    validate: (value) =>
      typeof (value as Order | null)?.id === "string"
        ? { value: value as Order }
        : { issues: [{ message: "must be text", path: ["id"] }] },
  },
};

function variable(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set`);
  return value;
}

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line) as Command;
  if (command.do === "produce") void produce(command.messages, command.batch ?? false);
  else if (command.do === "go") go.open();
  else void work(command);
}

/** Runs until SIGTERM. The exit status is that of a worker. */
async function work(of: Work): Promise<void> {
  const worker = new Worker({
    client,
    concurrency: of.concurrency ?? 8,
    lease: of.lease_ms ?? 30_000,
    maxProcessing: of.max_processing_ms ?? 3_600_000,
    shutdownTimeout: of.shutdown_timeout_ms ?? 30_000,
  });
  for (const { topic, group, steps } of of.handlers) {
    worker.handle(topic, { group, schema: order }, (value, ctx) => run(steps, value, ctx, { provider, go }));
  }
  event({ event: "working" });
  const error = await worker.run().catch((error: Error) => error);
  event({ event: "stopped", error: error?.message });
  process.exit(error ? 1 : 0);
}

async function produce(messages: ToProduce[], isBatch: boolean): Promise<void> {
  try {
    if (isBatch) {
      for (const result of await client.produceBatch(messages.map(messageOf))) report(result);
    } else {
      for (const { topic, value, ...options } of messages.map(messageOf)) {
        report(await client.produce(topic, value, options.options).catch((error: DriftqError) => error));
      }
    }
  } catch (error) {
    report(error as DriftqError);
  }
}

function messageOf({ topic, value, idempotency_key }: ToProduce): Message {
  return message(topic, value, idempotency_key === undefined ? {} : { idempotencyKey: idempotency_key });
}

function report(result: Receipt | DriftqError): void {
  if (!(result instanceof DriftqError)) {
    event({ event: "produced", id: result.id, deduplicated: result.deduplicated });
  } else {
    event({ event: "failed", error: result.name, code: result instanceof Refused ? result.code : undefined });
  }
}
