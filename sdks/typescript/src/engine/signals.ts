/** SIGTERM and SIGINT, received on a thread. */

import { constants } from "node:os";

/** A wrapper of a libuv signal handle, which belongs to the event loop of its thread. */
interface SignalWrap {
  onsignal: () => void;
  start(signal: number): number;
  unref(): void;
  close(): void;
}

/**
 * Calls `onSignal` on this thread, also while the main thread is blocked. Node has no public way to do that: its
 * `process.on` works on the main thread only. Returns false where that is all there is (Bun, Deno, and Node with
 * its permission model).
 */
export function listenOnThread(onSignal: () => void): boolean {
  const { binding, noDeprecation } = process as unknown as {
    binding?: (name: string) => { Signal: new () => SignalWrap };
    noDeprecation?: boolean;
  };
  const started: SignalWrap[] = [];
  try {
    if (!binding || process.versions.bun || "Deno" in globalThis) return false;
    // The warning is for authors of programs, who cannot do anything about it.
    process.noDeprecation = true;
    const { Signal } = binding.call(process, "signal_wrap");
    for (const signal of [constants.signals.SIGTERM, constants.signals.SIGINT]) {
      const wrap = new Signal();
      wrap.onsignal = onSignal;
      wrap.unref();
      if (wrap.start(signal) !== 0) throw new Error("the signal handle did not start");
      started.push(wrap);
    }
    return true;
  } catch {
    for (const wrap of started) wrap.close();
    return false;
  } finally {
    process.noDeprecation = noDeprecation ?? false;
  }
}
