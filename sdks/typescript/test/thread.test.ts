/** The thread of a worker. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { after, before, test } from "node:test";
import type { Worker as Thread } from "node:worker_threads";
import { Worker, WorkerError } from "@driftq/sdk";
import { Broker } from "@driftq/sdk/testing";

let broker: Broker;
before(async () => {
  broker = await Broker.start();
});
after(() => broker.stop());

/** A worker in a process of its own, which prints the value of each message. */
function start(topic: string, options: string[] = []) {
  const program = `
    import { Worker } from "@driftq/sdk";
    const worker = new Worker({ url: "${broker.url}" });
    worker.handle("${topic}", { group: "g" }, (value) => console.log("handled", value));
    await worker.run();
    console.log("stopped");`;
  const child = spawn(process.execPath, [...options, "--input-type=module", "-e", program]);
  let out = "";
  child.stdout.on("data", (text) => {
    out += text;
  });
  child.stderr.on("data", (text) => {
    out += text;
  });
  const printed = async (text: string) => {
    for (let tries = 0; tries < 1_000 && !out.includes(text); tries += 1) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    assert.ok(out.includes(text), out);
  };
  return { child, printed, exited: once(child, "exit") };
}

test("a thread that ends cancels the handlers, and is an error of the worker", async () => {
  const [topic] = await broker.topics("ends");
  const worker = new Worker({ client: broker.client });
  let reason: unknown;
  worker.handle(topic, { group: "g" }, async (_, { signal }) => {
    void thread.terminate();
    await once(signal, "abort");
    reason = signal.reason;
  });
  const created = once(process, "worker") as Promise<[Thread]>;
  const ended = assert.rejects(worker.run({ signal: new AbortController().signal }), WorkerError);
  const [thread] = await created;
  await broker.client.produce(topic, 1);
  await ended;
  assert.match(String(reason), /the thread of the worker has ended/);
});

test("a signal that a tool repeats at once stops the worker gracefully", async () => {
  const [topic] = await broker.topics("repeats");
  const { child, printed, exited } = start(topic);
  await broker.client.produce(topic, 1);
  await printed("handled 1");
  child.kill("SIGINT");
  setTimeout(() => child.kill("SIGINT"), 20);
  await printed("stopped");
  assert.deepEqual(await exited, [0, null]);
});

test("where no thread may be started, the worker warns and works", async () => {
  const [topic] = await broker.topics("forbidden");
  const permission = process.allowedNodeEnvironmentFlags.has("--permission")
    ? "--permission"
    : "--experimental-permission";
  const network = process.allowedNodeEnvironmentFlags.has("--allow-net") ? ["--allow-net"] : [];
  const { child, printed, exited } = start(topic, [permission, "--allow-fs-read=*", ...network]);
  await broker.client.produce(topic, 2);
  await printed("handled 2");
  await printed("no thread can be started");
  child.kill("SIGTERM");
  await printed("stopped");
  assert.deepEqual(await exited, [0, null]);
});
