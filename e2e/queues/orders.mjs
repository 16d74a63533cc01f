// Sends twenty orders and prints the result of each.
import { Queue, QueueEvents } from "bullmq";
import { connection } from "./options.mjs";

const queue = new Queue("payments", { connection });
queue.setMaxListeners(0); // One listener per order.
const events = new QueueEvents("payments", { connection, lastEventId: "0-0" });
const orders = Array.from({ length: 20 }, (_, number) => `order-${number}`);
const jobs = await Promise.all(orders.map((order) => queue.add("pay", { order, amount: "12" })));
console.log("sent");
const ended = await Promise.all(jobs.map((job) => job.waitUntilFinished(events).catch((failed) => failed.message)));
console.log(JSON.stringify(Object.fromEntries(orders.map((order, number) => [order, ended[number]]))));
process.exit();
