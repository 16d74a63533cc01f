/** Lets handlers wait for a command of the runner. */

import { once } from "node:events";

export class Gate {
  private opened = 0;
  private readonly target = new EventTarget();

  open(): void {
    this.opened += 1;
    this.target.dispatchEvent(new Event("open"));
  }

  /** Waits until it was opened `times` times. */
  async waitFor(times: number, signal: AbortSignal): Promise<void> {
    while (this.opened < times) await once(this.target, "open", { signal });
  }
}
