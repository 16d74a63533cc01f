/** Starts the engine of a worker: on a thread of its own, or on the main thread where there are no threads. */

import { Worker as Thread } from "node:worker_threads";
import { Engine } from "./engine/engine.js";
import { stuckText } from "./engine/exit.js";
import type { EngineConfig, FromEngine, ToEngine } from "./engine/protocol.js";
import { INTERNALS_OPTION } from "./engine/signals.js";
import { engineSource } from "./engine-source.js";
import { textOf } from "./errors.js";
import type { Logger } from "./logger.js";

/** A running engine. */
export interface EngineHandle {
  post(message: ToEngine): void;
  /** Ends it, and waits until it has ended. */
  end(): Promise<void>;
}

export interface EngineEvents {
  onMessage(message: FromEngine): void;
  /** The engine has failed. No lease is renewed any more. */
  onFailed(error: unknown): void;
}

const isForeign = process.versions.bun !== undefined || "Deno" in globalThis;

/** Where the engine runs. */
export type EnginePlace = "thread" | "main";

export function startEngine(
  place: EnginePlace,
  config: EngineConfig,
  events: EngineEvents,
  logger: Logger,
): EngineHandle {
  if (place === "main") return onMain(config, events);
  // An option that this release of Node does not have is an error.
  if (config.hasSignals && !isForeign) {
    try {
      return onThread(config, events, [INTERNALS_OPTION]);
    } catch {
      // Signals wait for the main thread, then.
    }
  }
  try {
    return onThread(config, events, []);
  } catch (error) {
    logger.warn("no thread can be started; a handler that blocks the main thread loses its lease", {
      error: textOf(error),
    });
    return onMain(config, events);
  }
}

/** `execArgv` are options of the thread. Those of the process, such as loaders, are for the program of the user. */
function onThread(config: EngineConfig, events: EngineEvents, execArgv: string[]): EngineHandle {
  const source = new URL(`data:text/javascript,${encodeURIComponent(engineSource)}`);
  const thread = new Thread(source, { name: "driftq", workerData: config, execArgv });
  let isEnding = false;
  thread.on("message", (message: FromEngine) => events.onMessage(message));
  thread.on("error", (error) => events.onFailed(error));
  thread.on("exit", () => {
    if (!isEnding) events.onFailed(new Error("the thread of the worker has ended"));
  });
  return {
    post: (message) => thread.postMessage(message),
    async end() {
      isEnding = true;
      await thread.terminate();
    },
  };
}

function onMain(config: EngineConfig, events: EngineEvents): EngineHandle {
  // Messages arrive later, as those of a thread do.
  const deliver = (message: FromEngine) => queueMicrotask(() => events.onMessage(message));
  const interrupt = () => deliver({ type: "exit", why: "a second signal ends the process" });
  const engine = new Engine(config, deliver, config.hasSignals ? interrupt : () => {});
  deliver({ type: "ready", receivesSignals: false });
  engine.run().then(
    (stuck) => {
      if (stuck.length > 0 && config.hasSignals) deliver({ type: "exit", why: stuckText(stuck) });
      else deliver({ type: "stopped", stuck });
    },
    (error) => events.onFailed(error),
  );
  return { post: (message) => queueMicrotask(() => engine.receive(message)), end: async () => {} };
}
