/** Answers that do not come from DriftQ, and connections that cannot be opened. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { Client, Invalid, OutcomeUnknown, Refused, Unavailable } from "@driftq/sdk";

/** Calls `use` with the URL of a server, and returns how many requests it got besides those for its version. */
async function served(listener: RequestListener, use: (url: string) => Promise<void>, host = "127.0.0.1") {
  let requests = 0;
  const server = createServer((request, response) => {
    if (request.url === "/v1/version") {
      response.end('{"features":["nonce"]}');
    } else {
      requests += 1;
      listener(request, response);
    }
  }).listen(0, host);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  try {
    await use(`http://${host.includes(":") ? `[${host}]` : host}:${port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
  return requests;
}

test("a success that is not JSON is an unknown outcome, and is asked about again", async () => {
  const listener: RequestListener = (_, response) => response.end("<html>");
  const requests = await served(listener, async (url) => {
    await assert.rejects(new Client({ url, timeout: 2_000 }).produce("orders", 1), OutcomeUnknown);
  });
  assert.ok(requests > 1);
});

test("the error of a proxy counts by its status", async () => {
  const listener: RequestListener = (_, response) => response.writeHead(404).end("<html>not here</html>");
  const requests = await served(listener, async (url) => {
    await assert.rejects(new Client(url).produce("orders", 1), (error) => {
      return error instanceof Refused && error.status === 404 && error.message.includes("not here");
    });
  });
  assert.equal(requests, 1);
});

test("a busy proxy without a body is asked again after its Retry-After", async () => {
  const began = performance.now();
  let isBusy = true;
  const listener: RequestListener = (_, response) => {
    if (isBusy) response.writeHead(429, { "retry-after": "1" }).end();
    else response.end('{"topic":"orders","partition":0,"offset":0,"id":"m_1","deduplicated":false}');
    isBusy = false;
  };
  await served(listener, async (url) => {
    await new Client(url).produce("orders", 1);
  });
  assert.ok(performance.now() - began >= 1_000);
});

test("a redirect is not followed, and the key goes nowhere else", async () => {
  const listener: RequestListener = (_, response) =>
    response.writeHead(307, { location: "http://127.0.0.1:2" }).end();
  const requests = await served(listener, async (url) => {
    await assert.rejects(new Client({ url, apiKey: "secret" }).produce("orders", 1), Refused);
  });
  assert.equal(requests, 1);
});

test("the key is sent, also to an IPv6 address", async () => {
  let key: string | undefined;
  const listener: RequestListener = ({ headers }, response) => {
    key = headers.authorization;
    response.end("{}");
  };
  await served(
    listener,
    async (url) => {
      const { status } = await new Client({ url: `${url}/v1/`, apiKey: "secret" }).request("GET", "topics");
      assert.equal(status, 200);
    },
    "::1",
  );
  assert.equal(key, "Bearer secret");
});

test("a server that is not there changed nothing", async () => {
  const client = new Client({ url: "http://127.0.0.1:2", timeout: 200 });
  await assert.rejects(client.produce("orders", 1), Unavailable);
});

test("settings that cannot be right are errors at once", () => {
  for (const url of ["orders", "ftp://example.com", "http://user:secret@127.0.0.1"]) {
    assert.throws(() => new Client(url), Invalid);
  }
  assert.throws(() => new Client({ url: "http://127.0.0.1", apiKey: "secret\n" }), Invalid);
  assert.throws(() => new Client({ url: "http://127.0.0.1", timeout: "soon" as never }), Invalid);
});
