/** What becomes of a message when its handler has ended. */

import { toMs } from "./duration.js";
import type { SettleItem } from "./engine/protocol.js";
import { LeaseLost, textOf } from "./errors.js";
import { EffectFailed, Reject, Release, Retry } from "./outcomes.js";

/** The longest delay of a nack: 7 days. */
const DELAY_MS_MAX = 604_800_000;

/**
 * The settlement of a handler that threw `thrown`, or none. `isStopping` says that the worker had cancelled the
 * handler, so that an error is a consequence of that: the message is given back and has used no attempt.
 */
export function settlementOfError(thrown: unknown, isStopping: boolean): SettleItem | undefined {
  // Its message is delivered to another worker.
  if (thrown instanceof LeaseLost) return undefined;
  if (thrown instanceof Reject) return { op: "nack", dead_letter: true, reason: reasonOf(thrown) };
  if (thrown instanceof Release) return { op: "nack", release: true, ...delayOf(thrown) };
  if (thrown instanceof Retry) return { op: "nack", reason: reasonOf(thrown), ...delayOf(thrown) };
  if (isStopping) return { op: "nack", release: true };
  return { op: "nack", reason: reasonOf(thrown) };
}

/** Whether the handler threw it to say how it ended. Any other error may be a bug. */
export function isOutcome(thrown: unknown): boolean {
  return [EffectFailed, LeaseLost, Reject, Release, Retry].some((of) => thrown instanceof of);
}

/** A reason that is empty counts as none. */
function reasonOf(thrown: unknown): string {
  const isOwn = thrown instanceof Reject || thrown instanceof Retry;
  return (isOwn ? thrown.message : textOf(thrown)) || "the handler failed";
}

/** The delay, at most the longest that the server accepts. */
function delayOf({ after }: Retry | Release): { delay_ms?: number } {
  if (after === undefined) return {};
  try {
    return { delay_ms: Math.min(toMs(after, "after"), DELAY_MS_MAX) };
  } catch {
    // The backoff of the retry policy is better than no settlement.
    return {};
  }
}
