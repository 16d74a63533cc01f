// Charges an order once, whatever dies in between.
//
//   driftq dev --topic orders --topic receipts
//   npm install @driftq/sdk zod && npx tsx payment-worker.ts
//   curl -s 127.0.0.1:8080/v1/produce -d '{"topic":"orders","value":"{\"id\":\"77\",\"cents\":1200}"}'
import { setTimeout as sleep } from "node:timers/promises";
import { Declined, Worker } from "@driftq/sdk";
import { z } from "zod";

const Order = z.object({ id: z.string(), cents: z.number().int() });

const worker = new Worker({ url: process.env.DRIFTQ_URL ?? "http://127.0.0.1:8080" });

// The provider deduplicates by the downstream key for a day.
const options = { group: "biller", schema: Order, onDoubt: "retry", window: "24h" } as const;
worker.handle("orders", options, async (order, ctx) => {
  const charge = await ctx.effect(`charge-${order.id}`, { request: String(order.cents) }, (e) =>
    chargeCard(order.cents, e.downstreamKey),
  );
  console.log(`order ${order.id} is charged: ${charge.id}`);
  await ctx.commit({ produce: [ctx.message("receipts", charge)] });
});

/** Stands for the request to a payment provider. */
async function chargeCard(cents: number, idempotencyKey: string): Promise<{ id: string }> {
  if (cents > 1_000_000) throw new Declined("card_declined", 402);
  await sleep(50);
  return { id: `ch_${idempotencyKey.slice(3, 11)}` };
}

await worker.run();
