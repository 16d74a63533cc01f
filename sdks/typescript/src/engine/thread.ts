/** The program of the thread of a worker. It is built into one text, so that no bundler loses it. */

import { parentPort, workerData } from "node:worker_threads";
import { Engine } from "./engine.js";
import { EXIT_STATUS, exitFromThread } from "./exit.js";
import type { EngineConfig, FromEngine, ToEngine } from "./protocol.js";
import { listenOnThread } from "./signals.js";

const config = workerData as EngineConfig;
const post = (message: FromEngine) => parentPort?.postMessage(message);
const interrupt = () => void exitFromThread(`a second signal ends the process with status ${EXIT_STATUS}`);
const engine = new Engine(config, post, config.hasSignals ? interrupt : () => {});
parentPort?.on("message", (message: ToEngine) => engine.receive(message));
post({ type: "ready", receivesSignals: config.hasSignals && listenOnThread(() => engine.onSignal()) });
const stuck = await engine.run();
if (stuck.length > 0 && config.hasSignals) {
  // The main thread can be blocked, so an error would end nothing.
  await exitFromThread(`handlers did not end when they were cancelled: ${stuck.join(", ")}`);
} else {
  post({ type: "stopped", stuck });
}
