/** Stands between the worker of a test and the server, and makes chosen requests fail. */

import { once } from "node:events";
import {
  Agent,
  createServer,
  type IncomingMessage,
  request,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";

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
const STATUS = { busy: [429, "RESOURCE_EXHAUSTED"], unavailable: [503, "UNAVAILABLE"] } as const;

export class FaultyConnection {
  readonly url: string;
  private readonly faults: Required<Fault>[] = [];
  private readonly agent = new Agent({ keepAlive: true });

  private constructor(
    private readonly server: Server,
    private readonly target: string,
  ) {
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on("request", (from: IncomingMessage, to: ServerResponse) => this.serve(from, to));
    // A test that does not stop it can end all the same.
    server.unref();
  }

  static async start(target: string): Promise<FaultyConnection> {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    return new FaultyConnection(server, target);
  }

  fail({ next, how, times = 1 }: Fault): void {
    this.faults.push({ next, how, times });
  }

  stop(): void {
    this.server.close();
    this.server.closeAllConnections();
    this.agent.destroy();
  }

  private serve(from: IncomingMessage, to: ServerResponse): void {
    const how = this.take(from.url ?? "");
    if (how === "lost_request") {
      from.socket.destroy();
    } else if (how === "busy" || how === "unavailable") {
      const [status, error] = STATUS[how];
      const body = { error, message: "by the test", retryable: true, retry_after_ms: RETRY_AFTER_MS };
      to.writeHead(status, { "content-type": "application/json" });
      to.end(JSON.stringify({ ...body, outcome: "none" }));
    } else {
      this.forward(from, to, how === "lost_reply");
    }
  }

  private forward(from: IncomingMessage, to: ServerResponse, isLost: boolean): void {
    const { method, headers } = from;
    const { host: _, ...kept } = headers;
    const upstream = request(
      `${this.target}${from.url}`,
      { method, headers: kept, agent: this.agent },
      (answer) => {
        if (isLost) {
          answer.resume().on("end", () => from.socket.destroy());
        } else {
          to.writeHead(answer.statusCode ?? 502, answer.headers);
          answer.pipe(to);
        }
      },
    );
    upstream.on("error", () => from.socket.destroy());
    // A client that goes takes its request with it.
    to.on("close", () => upstream.destroy());
    from.pipe(upstream);
  }

  /** How this request fails, if a fault is due. */
  private take(url: string): Fault["how"] | undefined {
    const fault = this.faults.find(({ next, times }) => times > 0 && url.split("?")[0] === `/v1/${next}`);
    if (!fault) return undefined;
    fault.times -= 1;
    return fault.how;
  }
}
