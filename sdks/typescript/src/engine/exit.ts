/** Ends the process from the thread of a worker, also while the main thread is blocked. */

import { writeSync } from "node:fs";
import { sleep } from "../duration.js";

/** The status of a process that was stopped before its handlers had ended. */
export const EXIT_STATUS = 1;
/** How long the main thread has to end the process by itself, and then with the inspector. */
const EXIT_MS = 250;
const INTERRUPT_MS = 1_000;

/**
 * Ends the process if the main thread, which was asked to do that, is blocked. `process.exit` of a thread ends only
 * the thread. The inspector can interrupt JavaScript of the main thread. If that is in a system call, only a signal
 * ends the process.
 */
export async function exitFromThread(why: string): Promise<void> {
  await sleep(EXIT_MS);
  writeSync(2, `ERROR driftq: ${why}\n`);
  setTimeout(() => process.kill(process.pid, "SIGKILL"), INTERRUPT_MS);
  try {
    const { Session } = await import("node:inspector");
    const session = new Session();
    session.connectToMainThread();
    session.post("Runtime.evaluate", { expression: `process.exit(${EXIT_STATUS})` });
  } catch {
    // Without an inspector, the signal ends the process.
  }
}

/** The report of deliveries whose handlers did not end. */
export function stuckText(stuck: readonly string[]): string {
  return `handlers did not end when they were cancelled: ${stuck.join(", ")}`;
}
