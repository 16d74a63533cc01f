/** Durations. */

import { Invalid } from "./errors.js";

/** Milliseconds, or a number with a unit, for example `"30s"` or `"24h"`. */
export type Duration = number | `${number}${keyof typeof UNITS}`;

const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** The milliseconds of a duration. */
export function toMs(duration: Duration, what: string): number {
  const parts = typeof duration === "string" ? /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(duration) : undefined;
  const ms = parts ? Number(parts[1]) * UNITS[parts[2] as keyof typeof UNITS] : duration;
  if (typeof ms !== "number" || !(ms >= 0)) {
    throw new Invalid(
      `${what}: must be milliseconds or text such as "30s" (got ${JSON.stringify(duration)})`,
    );
  }
  return Math.round(ms);
}

/** Like {@link toMs}, within a range. */
export function toMsWithin(duration: Duration, what: string, min: number, max: number): number {
  const ms = toMs(duration, what);
  if (ms < min || ms > max) throw new Invalid(`${what}: must be between ${min} and ${max} ms (got ${ms})`);
  return ms;
}

export function sleep(ms: number): Promise<void> {
  return new Promise((wake) => setTimeout(wake, ms));
}

/** Whether `done` is fulfilled in time. */
export function within(ms: number, done: Promise<unknown>): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms, false);
    done.then(() => resolve(true), reject).finally(() => clearTimeout(timer));
  });
}
