/** The handler of the scenarios: runs a list of steps. */

import { pbkdf2Sync } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { type Context, effectFetch, type OnDoubt, type Probed, Reject, Release, Retry } from "@driftq/sdk";
import { event } from "./event.js";
import type { Gate } from "./gate.js";

/** How long the handler waits for the provider. */
const PROVIDER_MS = 500;
/** An address at which nothing listens. `fetch` does not even try port 1. */
const NOWHERE = "http://127.0.0.1:2";

export interface Order {
  id: string;
}

/** A step of the handler. `attempt` and `id` limit it to one attempt and one message. */
export interface Step {
  attempt?: number;
  id?: string;
  /** Execute an effect at the provider. */
  effect?: Effect;
  /** Commit, and produce the id of the message to each of these topics. */
  commit?: string[];
  /** Produce the id of the message to a topic, with a request of its own. */
  produce?: string;
  /** Wait, and let other tasks run. */
  wait_ms?: number;
  /** Wait, and let no other task run on this thread. */
  block_ms?: number;
  /** Compute, and let no other task run on this thread. */
  burn_ms?: number;
  /** The same, in code that is not JavaScript: one long call. */
  hold_interpreter_ms?: number;
  /** Wait, let no other task run on this thread, and end when the handler is cancelled. */
  block_until_cancelled_ms?: number;
  /** Wait for a command of the runner. */
  await_go?: number;
  /** End without success. */
  fail?: Failure;
}

interface Effect {
  /** `{id}` is the id of the message. */
  key: string;
  request?: string;
  on_doubt: OnDoubt;
  window_ms?: number;
  /** Record a success in the commit. */
  in_commit?: boolean;
  /** In this attempt, the provider cannot be reached. */
  unreachable_in?: number;
  /** In the first attempt, kill this process before or after the provider acts. */
  die?: "before" | "after";
}

interface Failure {
  how: string;
  after_ms?: number;
}

interface Surroundings {
  provider: string;
  go: Gate;
}

/** Runs the steps, and reports how the handler ended. */
export async function run(steps: Step[], order: Order, ctx: Context, around: Surroundings): Promise<void> {
  const { topic, attempts } = ctx.delivery;
  const of = { id: order.id, topic, attempt: ctx.attempt, attempts };
  event({ event: "started", ...of });
  let how = "failed";
  try {
    for (const step of steps) {
      const isForThis = (step.attempt ?? ctx.attempt) === ctx.attempt && (step.id ?? order.id) === order.id;
      if (isForThis) await runStep(step, order, ctx, around);
    }
    how = "ok";
  } finally {
    event({ event: "ended", ...of, how: ctx.isCancelled ? "cancelled" : how });
  }
}

async function runStep(
  step: Step,
  order: Order,
  ctx: Context,
  { provider, go }: Surroundings,
): Promise<void> {
  const { signal } = ctx;
  if (step.effect) await runEffect(step.effect, order.id, ctx, provider);
  if (step.commit) await ctx.commit({ produce: step.commit.map((topic) => ctx.message(topic, order.id)) });
  if (step.produce) await ctx.client.produce(step.produce, order.id);
  if (step.wait_ms !== undefined) await sleep(step.wait_ms, undefined, { signal });
  if (step.block_ms !== undefined) block(step.block_ms, () => false);
  if (step.burn_ms !== undefined) burn(step.burn_ms);
  if (step.hold_interpreter_ms !== undefined) hash(step.hold_interpreter_ms);
  if (step.block_until_cancelled_ms !== undefined) {
    block(step.block_until_cancelled_ms, () => ctx.isCancelled);
    if (ctx.isCancelled) throw new Release();
  }
  if (step.await_go !== undefined) await go.waitFor(step.await_go, signal);
  if (step.fail) fail(step.fail);
}

/** Blocks the main thread. It sleeps between two looks, because many scenarios share the machine. */
function block(ms: number, isOver: () => boolean): void {
  const lock = new Int32Array(new SharedArrayBuffer(4));
  for (const began = performance.now(); performance.now() - began < ms && !isOver(); )
    Atomics.wait(lock, 0, 0, 10);
}

function burn(ms: number): void {
  for (const began = performance.now(); performance.now() - began < ms; );
}

/** Derives a key for about this time, in one call of native code. */
function hash(ms: number): void {
  const derive = (rounds: number) => pbkdf2Sync("secret", "salt", rounds, 32, "sha256");
  const [began, sample] = [performance.now(), 50_000];
  derive(sample);
  derive(Math.ceil((sample * ms) / (performance.now() - began)));
}

async function runEffect(effect: Effect, id: string, ctx: Context, provider: string): Promise<void> {
  const { request, on_doubt: onDoubt, window_ms: window, in_commit, unreachable_in, die: dies } = effect;
  const key = effect.key.replace("{id}", id);
  const here = unreachable_in === ctx.attempt ? NOWHERE : provider;
  const dieIf = (when: Effect["die"]) => {
    if (ctx.attempt === 1 && dies === when) die();
  };
  const options = {
    onDoubt,
    finish: in_commit ? ("commit" as const) : ("now" as const),
    probe: async (e: { downstreamKey: string }): Promise<Probed<unknown>> => {
      const answer = await fetch(`${here}/acts/${e.downstreamKey}`, {
        signal: AbortSignal.timeout(PROVIDER_MS),
      });
      if (answer.status === 404) return { happened: false };
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      return { happened: true, result: await answer.json() };
    },
    ...(request === undefined ? {} : { request }),
    ...(window === undefined ? {} : { window }),
  };
  const result = await ctx.effect<unknown>(key, options, async (e) => {
    dieIf("before");
    const answer = await effectFetch(`${here}/act`, {
      method: "POST",
      headers: { "idempotency-key": e.downstreamKey, fence: String(e.fence) },
      signal: AbortSignal.timeout(PROVIDER_MS),
    });
    const result: unknown = await answer.json();
    dieIf("after");
    return result;
  });
  event({ event: "effect", key, result });
}

function fail({ how, after_ms }: Failure): never {
  if (how === "panic") throw new TypeError("boom");
  if (how === "die") die();
  if (how === "reject") throw new Reject("rejected");
  if (how === "release") throw new Release(after_ms);
  if (how === "retry") throw new Retry("later", { after: after_ms ?? 0 });
  throw new Error(how);
}

/** The signal cannot be caught. */
function die(): never {
  process.kill(process.pid, "SIGKILL");
  // The process ends before the call returns.
  throw new Error("still alive");
}
