/** SIGTERM and SIGINT, received on a thread. */

import { createRequire } from "node:module";
import { constants } from "node:os";

/** Lets a thread of Node use {@link listenOnThread}. It holds for that thread alone. */
export const INTERNALS_OPTION = "--expose-internals";

/** A libuv signal handle, which belongs to the event loop of its thread. */
interface SignalWrap {
  onsignal: () => void;
  start(signal: number): number;
  unref(): void;
  close(): void;
}

/**
 * Calls `onSignal` on this thread, also while the main thread is blocked. Node has no public way to do that: its
 * `process.on` works on the main thread only. This is the handle that `process.on` uses. Returns false where it
 * cannot be used: in Bun, in Deno, and if a release of Node takes it away. Signals then wait for the main thread.
 */
export function listenOnThread(onSignal: () => void): boolean {
  if (!process.execArgv.includes(INTERNALS_OPTION)) return false;
  const { emitWarning } = process;
  const started: SignalWrap[] = [];
  try {
    // Users can do nothing about the warning that comes with it.
    process.emitWarning = () => {};
    const require = createRequire(`${process.cwd()}/`);
    const { Signal } = require("internal/test/binding").internalBinding("signal_wrap");
    for (const signal of [constants.signals.SIGTERM, constants.signals.SIGINT]) {
      const wrap: SignalWrap = new Signal();
      started.push(wrap);
      wrap.onsignal = onSignal;
      wrap.unref();
      if (wrap.start(signal) !== 0) throw new Error("the signal handle did not start");
    }
    return true;
  } catch {
    for (const wrap of started) wrap.close();
    return false;
  } finally {
    process.emitWarning = emitWarning;
  }
}
