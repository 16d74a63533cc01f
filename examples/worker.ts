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
const owner = `ts-${process.pid}`;
async function effect(message: any, key: string) { // Longer than the lease? Call post("extend", { token }).
  await sleep(1000 * Number(message.value));
  // For an API: `key` as idempotency key. The file exists if an earlier attempt died before it could say so.
  if (!existsSync(message.origin_id)) writeFileSync(message.origin_id, "");
}
async function handle(message: any, token: string) {
  const begun = await post("effects/begin", { lease_token: token, owner, on_doubt: "retry" });
  if (!begun) return; // Another worker has the effect.
  if (begun.decision === "EXECUTE") { // Otherwise it has succeeded before, also before a redrive.
    await effect(message, begun.downstream_key);
    await post("effects/finish", { token: begun.token, status: "SUCCEEDED" });
  }
  await post("ack", { token });
}
async function main() {
  for (;;) for (const message of (await post("receive", { topic, group, owner })).messages) {
    const token = message.lease.token;
    await handle(message, token).catch((failed) => post("nack", { token, reason: `${failed}` }));
  }
}
main();
