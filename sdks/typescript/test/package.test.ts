/** What is generated or written twice is the same. */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

const root = new URL("../", import.meta.url);
const read = (path: string) => readFile(new URL(path, root), "utf8");

test("the wire types are those of the OpenAPI document", async () => {
  const script = new URL("scripts/wire-types.js", root);
  const { wireTypes } = (await import(script.href)) as { wireTypes(): Promise<string> };
  assert.equal(await read("src/wire.ts"), await wireTypes(), "run: npm run types");
});

test("the version is that of the package", async () => {
  const { version } = JSON.parse(await read("package.json")) as { version: string };
  const { VERSION } = (await import(new URL("dist/version.js", root).href)) as { VERSION: string };
  assert.equal(VERSION, version);
});

test("the client runs without the modules of Node", async () => {
  const seen = new Set<string>();
  const visit = async (path: string) => {
    if (seen.has(path)) return;
    seen.add(path);
    for (const [, from] of (await read(`dist/${path}`)).matchAll(/from "([^"]+)"/g)) {
      assert.match(from ?? "", /^\.\//, `${path} imports ${from}`);
      await visit((from ?? "").slice(2));
    }
  };
  await visit("client.js");
  assert.ok(seen.size > 5);
});
