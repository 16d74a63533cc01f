/** Effects: what a handler does in another system, recorded so that it happens once. */

import { nonce } from "./client.js";
import { type Duration, toMs } from "./duration.js";
import { OutcomeUnknown, Refused, textOf } from "./errors.js";
import { type Connection, isExact } from "./http.js";
import { stringifyExact } from "./integers.js";
import { Cancelled, Declined, EffectFailed, NotHappened, Reject, Release } from "./outcomes.js";
import { call } from "./retry.js";
import type { components } from "./wire.js";

type Began = components["schemas"]["Began"];
export type Finish = components["schemas"]["Finish"];

/** How long the ledger is asked. The lease of the message ends the attempt before that. */
const TIMEOUT_MS = 60_000;

/**
 * What to do when the outcome of an effect is unknown. `retry`: execute again with the same downstream key,
 * because the provider deduplicates by it. `probe`: ask the provider first. `park`: wait for a person.
 */
export type OnDoubt = "retry" | "probe" | "park";

/** The right to execute an effect. */
export interface Execution {
  /** The idempotency key for the provider. It is the same each time the effect is executed. */
  readonly downstreamKey: string;
  /** A number that grows with each execution, for providers that reject lower ones. */
  readonly fence: number;
}

/** What a provider says about an earlier execution. */
export type Probed<T> = { happened: true; result: T } | { happened: false };

/** The settings of an effect. */
export interface EffectOptions<T> {
  /** The content of the request. The same key with another request is rejected. */
  request?: string;
  onDoubt?: OnDoubt | undefined;
  /** How long the provider remembers the downstream key. */
  window?: Duration | undefined;
  /** Asks the provider whether an earlier execution happened, if `onDoubt` is `probe`. */
  probe?: (execution: Execution) => Promise<Probed<T>> | Probed<T>;
  /** `commit` leaves the recording of a success to the commit of the handler. */
  finish?: "now" | "commit";
}

/** What an effect needs of its handler. */
export interface EffectScope {
  readonly connection: Connection;
  readonly leaseToken: string;
  readonly owner: string;
  /** Throws if the handler is cancelled. */
  throwIfCancelled(): void;
  /** Leaves an outcome to the commit. */
  finishInCommit(finish: Finish): void;
}

export async function runEffect<T>(
  scope: EffectScope,
  key: string,
  options: EffectOptions<T>,
  execute: (execution: Execution) => Promise<T> | T,
): Promise<T> {
  scope.throwIfCancelled();
  const began = await begin(scope, key, options);
  if (began.decision === "REPLAY" || began.decision === "RETRYABLE") return recorded<T>(began);
  const { token, downstream_key, fence } = began;
  if (token === undefined || downstream_key === undefined) {
    throw new OutcomeUnknown("the response is not that of DriftQ");
  }
  const execution: Execution = { downstreamKey: downstream_key, fence };
  const outcome =
    began.decision === "EXECUTE"
      ? await outcomeOf(async () => {
          notExecutedIfCancelled(scope);
          return await execute(execution);
        })
      : await probed(() => probe(options, execution));
  return finish(scope, token, outcome, options.finish === "commit");
}

async function begin(
  scope: EffectScope,
  key: string,
  options: Pick<EffectOptions<unknown>, "request" | "onDoubt" | "window">,
): Promise<Began> {
  const { request, onDoubt, window } = options;
  const body: components["schemas"]["Begin"] = {
    lease_token: scope.leaseToken,
    key,
    nonce: nonce(),
    owner: scope.owner,
    ...(request === undefined ? {} : { request }),
    ...(onDoubt === undefined ? {} : { on_doubt: onDoubt }),
    ...(window === undefined ? {} : { provider_window_ms: toMs(window, "window") }),
  };
  try {
    return (await post(scope.connection, "effects/begin", body)) as Began;
  } catch (error) {
    if (error instanceof Refused && ["IN_PROGRESS", "IN_DOUBT"].includes(error.code)) {
      throw new Release(error.retryAfterMs);
    }
    throw error;
  }
}

/** How an execution ended. */
type Outcome<T> =
  | { is: "SUCCEEDED"; result: T }
  | { is: "FAILED_RETRYABLE"; why: string; error: unknown }
  | { is: "FAILED_FINAL"; why: string; code: number; error: unknown }
  /** The provider may have acted. */
  | { is: "UNKNOWN"; why: string; error: unknown };

async function outcomeOf<T>(execute: () => Promise<T>): Promise<Outcome<T>> {
  try {
    return { is: "SUCCEEDED", result: await execute() };
  } catch (error) {
    if (error instanceof NotHappened) return { is: "FAILED_RETRYABLE", why: error.message, error };
    if (error instanceof Declined) return { is: "FAILED_FINAL", why: error.message, code: error.code, error };
    // Any other error may come after the provider has acted.
    return { is: "UNKNOWN", why: textOf(error), error };
  }
}

async function probed<T>(probe: () => Promise<Probed<T>>): Promise<Outcome<T>> {
  try {
    const answer = await probe();
    if (answer.happened) return { is: "SUCCEEDED", result: answer.result };
    const why = "the provider has not executed it";
    return { is: "FAILED_RETRYABLE", why, error: undefined };
  } catch (error) {
    // An error of the probe says nothing about the execution.
    return { is: "UNKNOWN", why: textOf(error), error };
  }
}

async function probe<T>({ probe }: EffectOptions<T>, execution: Execution): Promise<Probed<T>> {
  if (!probe) throw new Error("the effect has no probe");
  const answer = await probe(execution);
  if (typeof answer?.happened !== "boolean") throw new Error("the probe returned neither of its answers");
  return answer;
}

/** The handler was cancelled while the ledger was asked, and nothing was executed. */
function notExecutedIfCancelled(scope: EffectScope): void {
  try {
    scope.throwIfCancelled();
  } catch (error) {
    throw new NotHappened("cancelled before it was executed", { cause: error });
  }
}

/** Records the outcome, before anything else can fail. */
async function finish<T>(
  scope: EffectScope,
  token: string,
  outcome: Outcome<T>,
  inCommit: boolean,
): Promise<T> {
  if (outcome.is !== "SUCCEEDED") {
    const error = outcome.why.toWellFormed();
    const code = outcome.is === "FAILED_FINAL" ? { code: outcome.code } : {};
    await record(scope.connection, { token, status: outcome.is, error, ...code });
    throw errorOf(outcome);
  }
  const { is: status, result } = outcome;
  let json: string | undefined;
  try {
    json = result === undefined ? undefined : stringifyExact(result);
  } catch (error) {
    await record(scope.connection, { token, status });
    throw new Reject(`the effect succeeded, and its result cannot be recorded: ${textOf(error)}`);
  }
  // The first execution returns what a later attempt reads: a date, for example, is text in both.
  const value: T = json === undefined ? undefined : JSON.parse(json);
  const body: Finish = { token, status, ...(json === undefined ? {} : { result: value }) };
  if (inCommit) {
    scope.finishInCommit(body);
    return value;
  }
  try {
    await record(scope.connection, body);
  } catch (error) {
    // The effect happened, so another attempt is of no use.
    if (!(error instanceof Refused)) throw error;
    throw new Reject(`the effect succeeded, and its result cannot be recorded: ${error.message}`);
  }
  return value;
}

function errorOf<T>(outcome: Exclude<Outcome<T>, { is: "SUCCEEDED" }>): unknown {
  const { is, why, error } = outcome;
  // Its cause is the cancellation.
  if (error instanceof NotHappened && error.cause instanceof Cancelled) return error.cause;
  if (is === "UNKNOWN") return error;
  return new EffectFailed(why, is === "FAILED_FINAL", is === "FAILED_FINAL" ? outcome.code : 0, {
    cause: error,
  });
}

/**
 * Records an outcome. If its result cannot be stored, the outcome is recorded without it, so that it is not
 * unknown, and the rejection is thrown.
 */
export async function record(connection: Connection, finish: Finish): Promise<void> {
  try {
    await post(connection, "effects/finish", finish);
  } catch (error) {
    const { result, ...without } = finish;
    if (result !== undefined && error instanceof Refused) await post(connection, "effects/finish", without);
    throw error;
  }
}

/** Records outcomes without a commit: all that can be, and throws the first error. */
export async function recordAll(connection: Connection, outcomes: readonly Finish[]): Promise<void> {
  const errors: unknown[] = [];
  for (const outcome of outcomes) await record(connection, outcome).catch((error) => errors.push(error));
  if (errors.length > 0) throw errors[0];
}

function post(connection: Connection, path: string, body: object) {
  return call(connection, { path, body, isRepeatable: true, timeoutMs: TIMEOUT_MS });
}

/** The recorded outcome. */
function recorded<T>(began: Began): T {
  if (began.state !== "SUCCEEDED")
    throw new EffectFailed(began.error ?? "the effect failed", true, began.code);
  if (!isExact(began)) throw new Error("the recorded result has an integer beyond 2^53");
  return began.result as T;
}
