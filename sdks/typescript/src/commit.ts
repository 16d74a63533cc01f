/** The commit of a handler: ack, outcomes and next messages at once. */

import type { Finish } from "./effect.js";
import { recordAll } from "./effect.js";
import { Invalid, Refused } from "./errors.js";
import type { Connection } from "./http.js";
import { stringifyExact } from "./integers.js";
import { encode, type Message } from "./message.js";
import { Retry } from "./outcomes.js";
import { call } from "./retry.js";
import type { components } from "./wire.js";

/** How long a commit is tried. */
const TIMEOUT_MS = 60_000;

/** What a commit does besides the ack. */
export interface CommitOptions {
  /** The next messages. */
  produce?: readonly Message[];
  /** Pointers, as in the API. */
  pointers?: readonly components["schemas"]["SetPointer"][];
  /** The result of the message, for clients that wait for it. */
  result?: unknown;
}

/** What a commit needs of its handler. */
export interface CommitScope {
  readonly leaseToken: string;
  /** Whether a commit is on its way. */
  isCommitting: boolean;
  isCommitted: boolean;
  /** Outcomes that wait for the commit. */
  pending: Finish[];
}

/**
 * Commits. If the server rejects the commit, the outcomes of its effects are recorded before the attempt
 * fails: a known outcome is never left unfinished.
 */
export async function commit(
  connection: Connection,
  scope: CommitScope,
  options: CommitOptions,
): Promise<void> {
  if (scope.isCommitted || scope.isCommitting) throw new Invalid("the message is already committed");
  scope.isCommitting = true;
  try {
    await send(connection, scope, options);
  } finally {
    scope.isCommitting = false;
  }
}

async function send(connection: Connection, scope: CommitScope, options: CommitOptions): Promise<void> {
  const { produce = [], pointers = [], result } = options;
  const body: components["schemas"]["Commit"] = { token: scope.leaseToken };
  if (produce.length > 0) body.produce = await Promise.all(produce.map(encode));
  if (pointers.length > 0) body.pointers = [...pointers];
  if (scope.pending.length > 0) body.effects = [...scope.pending];
  if (result !== undefined) body.result = JSON.parse(stringifyExact(result));
  try {
    await call(connection, { path: "commit", body, isRepeatable: true, timeoutMs: TIMEOUT_MS });
    scope.pending = [];
    scope.isCommitted = true;
  } catch (error) {
    // Also if the commit may have happened, or the lease is lost: the server accepts an outcome that it has,
    // and a late one of the last execution.
    const outcomes = scope.pending;
    scope.pending = [];
    const recorded = recordAll(connection, outcomes);
    if (!(error instanceof Refused)) {
      await recorded.catch(() => {});
      throw error;
    }
    await recorded;
    throw new Retry(`the commit was rejected: ${error.message}`, { cause: error });
  }
}
