/**
 * Tests of workers. A {@link Broker} is the real server in memory, with a clock that the test advances, so a retry
 * after an hour takes no hour.
 *
 * ```ts
 * const broker = await Broker.start({ topics: ["orders", "receipts"] });
 * await broker.client.produce("orders", { id: "77", cents: 1200 });
 * await broker.drain(billing(broker.client)); // a function that returns your worker
 * assert.equal((await broker.values("receipts")).length, 1);
 * await broker.stop();
 * ```
 */

import { type Body, Client, type Reply } from "../client.js";
import { type Duration, sleep, toMs } from "../duration.js";
import type { Worker } from "../worker.js";
import { type Fault, Faults } from "./faults.js";
import { ServerProcess } from "./server.js";

export type { Fault };

/** How long a worker may take to settle its messages, in real time. */
const SETTLE_MS = 30_000;
/** How often the state of the groups is read. */
const INTERVAL_MS = 5;
/** Messages that one page can have. */
const PAGE = 1_000;

/** A server in memory, with a clock that the test advances. */
export class Broker {
  /** A client with the faults of {@link Broker.fail}. */
  readonly client: Client;
  private readonly faults = new Faults();
  /** Without the faults, which are for the worker. */
  private readonly direct: Client;
  /** How far the clock is ahead. */
  private advancedMs = 0;
  private lastNumber = 0;

  private constructor(private readonly server: ServerProcess) {
    this.client = new Client({ url: server.url, fetch: this.faults.fetch });
    this.direct = new Client(server.url);
  }

  /**
   * Starts a server that has these topics: a name, or `name:partitions`. The binary is `binary`, or that of the
   * variable DRIFTQ_BIN, or `driftq` in PATH.
   */
  static async start(options: { topics?: readonly string[]; binary?: string } = {}): Promise<Broker> {
    const { topics = [], binary = process.env.DRIFTQ_BIN ?? "driftq" } = options;
    return new Broker(await ServerProcess.start(binary, topics));
  }

  /** The URL of the server. A client that a test makes with it has no faults. */
  get url(): string {
    return this.server.url;
  }

  /** Creates topics for one test of a suite that shares the server. Each has a number at its end. */
  async topics<const Names extends readonly string[]>(
    ...names: Names
  ): Promise<{ [Index in keyof Names]: string }> {
    this.lastNumber += 1;
    const created = names.map((name) => `${name}-${this.lastNumber}`);
    for (const name of created) await this.post("topics", { name });
    return created as { [Index in keyof Names]: string };
  }

  /** Advances the clock. Leases that end and retries that become due take effect before it returns. */
  async advance(time: Duration): Promise<Date> {
    const advance_ms = toMs(time, "time");
    const { now } = await this.post("dev/clock", { advance_ms });
    this.advancedMs += advance_ms;
    return new Date(String(now));
  }

  /** Makes requests fail, for example the answer of the next commit. */
  fail(fault: Fault): void {
    this.faults.add(fault);
  }

  /** Runs the worker until no message is ready for it. Messages that wait for a retry still wait. */
  runOnce(worker: Worker): Promise<void> {
    return this.runUntil(worker, async ({ isWorking }) => !isWorking);
  }

  /**
   * Runs the worker until every message of its topics is settled. While all that are left wait for a retry, the clock
   * is advanced to the next one.
   */
  drain(worker: Worker): Promise<void> {
    return this.runUntil(worker, async ({ isWorking, backlog, nextRetry }) => {
      if (backlog > 0 && !isWorking && nextRetry !== undefined) {
        // The server has the clock of this machine. If it is a little behind, the next look advances it.
        const waitMs = nextRetry - Date.now() - this.advancedMs;
        await this.advance(Math.max(waitMs, 1));
      }
      return backlog === 0;
    });
  }

  /** The values of the messages that are stored in a topic. One that is not JSON is text. */
  async values(topic: string): Promise<unknown[]> {
    const { messages } = await this.get(`topics/${topic}/messages?limit=${PAGE}`);
    return (messages as Body[]).map(({ value }) => {
      try {
        return JSON.parse(String(value));
      } catch {
        return value;
      }
    });
  }

  /** The dead letters of a topic, as in `GET /v1/dlq/{topic}`. */
  async deadLetters(topic: string): Promise<Body[]> {
    return (await this.get(`dlq/${topic}?limit=${PAGE}`)).dead_letters as Body[];
  }

  stop(): Promise<void> {
    return this.server.stop();
  }

  private async runUntil(worker: Worker, isOver: (state: State) => Promise<boolean>): Promise<void> {
    const stop = new AbortController();
    let isEnded = false;
    // A thread takes longer to start than most tests run.
    const ended = worker.run({ signal: stop.signal, engine: "main" }).finally(() => {
      isEnded = true;
    });
    // It is awaited below, also if the test fails before.
    ended.catch(() => {});
    try {
      await this.wait(worker, isOver, () => isEnded);
    } finally {
      stop.abort();
      await ended;
    }
  }

  private async wait(worker: Worker, isOver: (state: State) => Promise<boolean>, isEnded: () => boolean) {
    const began = performance.now();
    // Twice, because a handler may have produced a message for a group that was read before.
    let before: string | undefined;
    while (!isEnded()) {
      const state = await this.state(worker);
      if (state && (await isOver(state))) {
        if (state.progress === before) return;
        before = state.progress;
        continue;
      }
      before = undefined;
      if (performance.now() - began > SETTLE_MS) {
        throw new Error(`not settled in ${SETTLE_MS} ms: ${JSON.stringify(state)}`);
      }
      await sleep(INTERVAL_MS);
    }
  }

  /** The state of the groups of a worker. None before all of them exist, by the first receive. */
  private async state(worker: Worker): Promise<State | undefined> {
    const state: State = { backlog: 0, isWorking: false, progress: "", nextRetry: undefined };
    for (const { topic, group } of worker.subscriptions) {
      const { status, body } = await this.direct.request("GET", `topics/${topic}/groups/${group}`);
      if (status === 404 && body.kind === "group") return undefined;
      const { backlog, leased, waiting, partitions } = ok({ status, body }) as unknown as GroupState;
      state.backlog += backlog;
      state.isWorking ||= leased > 0 || backlog !== waiting;
      for (const { next_to_deliver, settled_through, next_retry_at } of partitions) {
        state.progress += ` ${next_to_deliver}/${settled_through}`;
        if (next_retry_at) state.nextRetry = Math.min(state.nextRetry ?? Infinity, Date.parse(next_retry_at));
      }
    }
    return state;
  }

  private async get(path: string): Promise<Body> {
    return ok(await this.direct.request("GET", path));
  }

  private async post(path: string, body: object): Promise<Body> {
    return ok(await this.direct.request("POST", path, body));
  }
}

interface State {
  backlog: number;
  /** Whether a message is ready or leased. */
  isWorking: boolean;
  /** Another text after another message was delivered. */
  progress: string;
  nextRetry: number | undefined;
}

/** What is used of `GET /v1/topics/{topic}/groups/{group}`. */
interface GroupState {
  backlog: number;
  leased: number;
  waiting: number;
  partitions: { next_to_deliver: number; settled_through: number; next_retry_at?: string }[];
}

function ok({ status, body }: Reply): Body {
  if (status >= 200 && status < 300) return body;
  throw new Error(`status ${status}: ${JSON.stringify(body)}`);
}
