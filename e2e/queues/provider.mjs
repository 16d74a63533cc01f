// The payment provider: every charge is a line of `charges`. It does not deduplicate.
import { appendFileSync, existsSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Refused } from "./once.mjs";

const note = (...words) => appendFileSync("charges", words.join(" ") + "\n");

export async function charge(order, amount, key) {
  if (order === "order-3") throw new Refused("the card is declined");
  if (order === "order-11" && !existsSync("lost")) {
    writeFileSync("lost", "");
    throw new Error("lost on the way there");
  }
  note("charged", order, amount, key);
  await sleep(300); // Time for the worker to be killed.
  if (order === "order-7") throw new Error("lost on the way back");
  note("answered", order);
  return { charge: `ch-${order}` };
}
