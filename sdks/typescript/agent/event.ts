/** Events for the runner. */

import { writeSync } from "node:fs";

/** Writes an event at once, because the process can be killed by its next step. */
export function event(event: Record<string, unknown>): void {
  writeSync(1, `${JSON.stringify(event)}\n`);
}
