/** The process of the server of a test. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

/** How long the server may take to start. */
const START_MS = 10_000;

export class ServerProcess {
  private readonly onExit = () => this.child.kill("SIGKILL");

  private constructor(
    private readonly child: ChildProcess,
    readonly url: string,
  ) {
    // A test that fails before it stops the server must not leave it behind.
    process.on("exit", this.onExit);
  }

  /** Starts a server in memory, with a test clock, at a free port. */
  static async start(binary: string, topics: readonly string[]): Promise<ServerProcess> {
    const options = ["dev", "--test-clock", "--listen", "127.0.0.1:0"];
    const child = spawn(binary, [...options, ...topics.flatMap((topic) => ["--topic", topic])], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    try {
      const url = await addressOf(child, binary);
      // A test that does not stop the server can end all the same.
      child.unref();
      for (const stream of [child.stdout, child.stderr]) (stream as { unref?: () => void } | null)?.unref?.();
      return new ServerProcess(child, url);
    } catch (error) {
      child.kill("SIGKILL");
      throw error;
    }
  }

  async stop(): Promise<void> {
    process.off("exit", this.onExit);
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const exited = once(this.child, "exit");
    this.child.ref();
    this.child.kill("SIGKILL");
    await exited;
  }
}

/** The address that the server prints when it listens. */
function addressOf(child: ChildProcess, binary: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const fail = (why: string) => {
      clearTimeout(timer);
      const fix = "Put driftq into PATH, or set DRIFTQ_BIN to its path.";
      reject(new Error(`${binary} did not start: ${why}. ${fix}`));
    };
    const timer = setTimeout(() => fail(`it printed no address in ${START_MS} ms`), START_MS);
    const errors: string[] = [];
    child.stderr?.on("data", (text) => errors.push(String(text)));
    child.once("error", (error) => fail(error.message));
    child.once("close", () => fail(errors.join("").trim() || "it has exited"));
    if (!child.stdout) return;
    createInterface({ input: child.stdout }).once("line", (line) => {
      const url = /^listening on (http:\/\/\S+)$/.exec(line)?.[1];
      if (!url) return fail(`it printed ${JSON.stringify(line)}`);
      clearTimeout(timer);
      resolve(url);
    });
  });
}
