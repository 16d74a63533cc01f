/** The program of the thread of a worker. It is built into one text, so that no bundler loses it. */

import { parentPort, workerData } from "node:worker_threads";
import { Engine } from "./engine.js";
import { exitFromThread, stuckText } from "./exit.js";
import type { EngineConfig, FromEngine, ToEngine } from "./protocol.js";
import { listenOnThread } from "./signals.js";

const config = workerData as EngineConfig;
const post = (message: FromEngine) => parentPort?.postMessage(message);
const interrupt = () => exit("a second signal ends the process");
const engine = new Engine(config, post, config.hasSignals ? interrupt : () => {});
parentPort?.on("message", (message: ToEngine) => engine.receive(message));
post({ type: "ready", receivesSignals: config.hasSignals && listenOnThread(() => engine.onSignal()) });
const stuck = await engine.run();
if (stuck.length > 0 && config.hasSignals) exit(stuckText(stuck));
else post({ type: "stopped", stuck });

function exit(why: string): void {
  post({ type: "exit", why });
  void exitFromThread(why);
}
