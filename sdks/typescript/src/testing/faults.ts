/** Makes chosen requests of a worker fail. */

/** A fault of the connection. */
export interface Fault {
  /** The path of the next request that fails, below `/v1`, for example `commit`. */
  next: string;
  /**
   * `lost_reply`: the server handles the request, and its answer is lost. `lost_request`: the server does not get
   * it. `busy`: 429. `unavailable`: 503, and the request did not happen.
   */
  how: "lost_reply" | "lost_request" | "busy" | "unavailable";
  /** How many requests fail. 1 by default. */
  times?: number;
}

/** The wait that a busy server asks for. */
const RETRY_AFTER_MS = 50;
const REFUSALS = {
  busy: { status: 429, error: "RESOURCE_EXHAUSTED" },
  unavailable: { status: 503, error: "UNAVAILABLE" },
};

export class Faults {
  private readonly faults: Required<Fault>[] = [];

  add({ next, how, times = 1 }: Fault): void {
    this.faults.push({ next, how, times });
  }

  /** Like the global `fetch`, with the faults. */
  readonly fetch: typeof fetch = async (input, init) => {
    const how = this.take(String(input));
    if (how === "busy" || how === "unavailable") return refusal(REFUSALS[how]);
    if (how !== "lost_request") {
      const response = await fetch(input, init);
      if (how !== "lost_reply") return response;
      await response.arrayBuffer();
    }
    throw new TypeError("fetch failed", { cause: new Error(`${how} by the test`) });
  };

  /** How this request fails, if a fault is due. */
  private take(url: string): Fault["how"] | undefined {
    const { pathname } = new URL(url);
    const fault = this.faults.find(({ next, times }) => times > 0 && pathname === `/v1/${next}`);
    if (fault) fault.times -= 1;
    return fault?.how;
  }
}

function refusal({ status, error }: { status: number; error: string }): Response {
  const body = {
    error,
    message: "by the test",
    retryable: true,
    retry_after_ms: RETRY_AFTER_MS,
    outcome: "none",
  };
  return new Response(JSON.stringify(body), { status });
}
