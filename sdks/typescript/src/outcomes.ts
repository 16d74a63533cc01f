/** What a handler throws to end without success, and what an effect throws about its outcome. */

import type { Duration } from "./duration.js";

/** Counts the attempt as failed. The next one starts after `after`, or after the backoff of the retry policy. */
export class Retry extends Error {
  override name = "Retry";
  readonly after: Duration | undefined;

  constructor(reason: string, options: ErrorOptions & { after?: Duration } = {}) {
    super(reason, options);
    this.after = options.after;
  }
}

/** Makes the message a dead letter now. */
export class Reject extends Error {
  override name = "Reject";
}

/** Gives the message back. This costs no attempt. */
export class Release extends Error {
  override name = "Release";

  constructor(readonly after?: Duration) {
    super("released");
  }
}

/** The reason of `ctx.signal`: the handler has to end. */
export class Cancelled extends Error {
  override name = "Cancelled";
}

/** Thrown by the function of an effect: it did not happen, and may be executed again. */
export class NotHappened extends Error {
  override name = "NotHappened";
}

/** Thrown by the function of an effect: the provider declined for good. The outcome is recorded. */
export class Declined extends Error {
  override name = "Declined";

  constructor(
    reason: string,
    /** A number of your choice, for example the HTTP status. */
    readonly code = 0,
  ) {
    super(reason);
  }
}

/**
 * Thrown by `ctx.effect`: the effect did not happen. It is not a {@link Declined}, so that an effect within
 * another one says nothing about the outer one.
 */
export class EffectFailed extends Error {
  override name = "EffectFailed";

  constructor(
    reason: string,
    /** Whether the provider declined for good, now or in an earlier attempt. */
    readonly isFinal: boolean,
    readonly code = 0,
    options: ErrorOptions = {},
  ) {
    super(reason, options);
  }
}
