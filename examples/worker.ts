// A worker without an SDK: npx tsx worker.ts TOPIC GROUP
import { existsSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
const [topic, group] = process.argv.slice(2);
const url = process.env.DRIFTQ_URL ?? "http://127.0.0.1:8080";
async function post(path: string, body: object): Promise<any> {
  for (;; await sleep(200)) try { // Retry on no answer, 429 and 503. Every call is safe to repeat.
    const answer = await fetch(`${url}/v1/${path}`, { method: "POST", body: JSON.stringify(body) });
    const text = await answer.text();
    if (answer.ok) return JSON.parse(text || "null");
    if (answer.status === 409) return; // Another attempt has the message now: discard the result.
    if (![429, 503].includes(answer.status)) { console.error(text); process.exit(1); }
  } catch { /* The connection broke. */ }
}
async function effect(message: any) { // Longer than the lease? Call post("extend", { token }).
  await sleep(1000 * Number(message.value));
  if (!existsSync(message.id)) writeFileSync(message.id, ""); // For an API: the id as idempotency key.
}
async function main() {
  for (;;) for (const message of (await post("receive", { topic, group, owner: `ts-${process.pid}` })).messages) {
    const token = message.lease.token;
    await effect(message).then(() => post("ack", { token }), (failed) => post("nack", { token, reason: `${failed}` }));
  }
}
main();
