// A worker that `driftq conform` passes: npx tsx worker.ts
import { setTimeout as sleep } from "node:timers/promises";
const { DRIFTQ_URL: url, PROVIDER_URL: provider, DRIFTQ_TOPIC: topic, DRIFTQ_GROUP: group } = process.env;
const owner = `ts-${process.pid}`;
let stopping = false;
process.on("SIGTERM", () => (stopping = true));

class Rejected extends Error {
  constructor(public status: number, public body: any) { super(`${status} ${JSON.stringify(body)}`); }
}

// Repeats a request until it has a response. The server recognizes tokens and nonces.
async function post(path: string, body: object): Promise<any> {
  for (;; await sleep(100)) {
    let answer: Response, text: string;
    try {
      answer = await fetch(`${url}/v1/${path}`, { method: "POST", body: JSON.stringify(body) });
      text = await answer.text();
    } catch { continue; }
    const json = JSON.parse(text || "null");
    if (answer.ok) return json;
    if (answer.status !== 429 && answer.status !== 503) throw new Rejected(answer.status, json);
  }
}

async function charge(value: string, key: string): Promise<unknown> {
  const headers = { "Idempotency-Key": key };
  const answer = await fetch(`${provider}/charges`, { method: "POST", headers, body: value });
  if (!answer.ok) throw new Error(`the provider returned ${answer.status}`);
  return answer.json();
}

async function handle(message: any, token: string) {
  const nonce = crypto.randomUUID();
  const begun = await post("effects/begin", { lease_token: token, owner, on_doubt: "retry", nonce });
  if (begun.decision !== "REPLAY") {
    let result: unknown;
    try {
      result = await charge(message.value, begun.downstream_key);
    } catch (error) { // It may have happened.
      await post("effects/finish", { token: begun.token, status: "UNKNOWN", error: String(error) });
      throw error;
    }
    await post("effects/finish", { token: begun.token, status: "SUCCEEDED", result });
  }
  await post("ack", { token });
}

async function process_message(message: any) {
  const { token } = message.lease;
  // If the lease is lost, the ledger rejects what this attempt still sends.
  const renewal = setInterval(() => post("extend", { token }).catch(() => clearInterval(renewal)), 1000);
  try {
    await handle(message, token);
  } catch (error) {
    const how = error instanceof Rejected
      ? { release: true, delay_ms: error.body?.retry_after_ms ?? 1000 } : { reason: String(error) };
    await post("nack", { token, ...how }).catch(() => {}); // Rejected if the lease is lost.
  } finally {
    clearInterval(renewal);
  }
}

async function main() {
  while (!stopping) {
    const { messages } = await post("receive", { topic, group, owner, wait_ms: 2000 });
    for (const message of messages) await process_message(message);
  }
}
main();
