// Charges orders through the ledger in PostgreSQL. `writer.mjs URL COUNT`
import { randomUUID } from "node:crypto";
import pg from "pg";

const LANGUAGE = "node";
const [url, count] = process.argv.slice(2);
const connect = async () => {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return client;
};
const db = await connect();
const provider = await connect();

/** Charges one order. Returns whether it is charged. */
async function charge(number) {
  const key = ["shop", "charge", `${LANGUAGE}-${number}`];
  const begin = "SELECT * FROM driftq_begin($1, $2, $3, 'h', 'retry', $4, '1 second')";
  const { decision, fence, downstream_key, response } = (await db.query(begin, [...key, randomUUID()])).rows[0];
  if (decision === "IN_PROGRESS") return false;
  if (decision === "REPLAY") {
    if (response.toString() !== `act-${downstream_key}`) throw new Error(`${key} is replayed as ${response}`);
    return true;
  }
  if (decision !== "EXECUTE") throw new Error(`${key}: ${decision}`);
  await provider.query("INSERT INTO provider_calls VALUES ($1)", [downstream_key]);
  await provider.query("INSERT INTO provider_acts VALUES ($1) ON CONFLICT DO NOTHING", [downstream_key]);
  const outcome = Buffer.from(`act-${downstream_key}`);
  for (;;) {
    const isWrong = Math.random() < 0.1;
    await db.query("BEGIN");
    await db.query("SELECT driftq_enqueue('receipts', $1)", [Buffer.from(`${isWrong ? "rolled back" : LANGUAGE} ${number}`)]);
    await db.query("INSERT INTO orders VALUES ($1, $2, $3)", [LANGUAGE, number, outcome.toString()]);
    const finish = "SELECT driftq_finish($1, $2, $3, $4, 'SUCCEEDED', 0, $5) AS said";
    const { said } = (await db.query(finish, [...key, fence, outcome])).rows[0];
    await db.query(isWrong || said !== "DONE" ? "ROLLBACK" : "COMMIT");
    if (said !== "DONE") return false;
    if (!isWrong) return true;
  }
}

let left = Array.from({ length: Number(count) }, (_, number) => number).sort(() => Math.random() - 0.5);
while (left.length > 0) {
  const open = [];
  for (const number of left) if (!(await charge(number))) open.push(number);
  left = open;
  await new Promise((resolve) => setTimeout(resolve, 50));
}
await db.end();
await provider.end();
