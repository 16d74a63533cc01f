// Writes src/engine-source.ts: the program of the worker's thread as one text, because a thread that starts from
// a file is lost when a bundler moves the files of a package.
import { rm, writeFile } from "node:fs/promises";
import { build } from "esbuild";

// A module that does not exist any more must not be published.
await rm(new URL("../dist", import.meta.url), { recursive: true, force: true });

const { outputFiles } = await build({
  entryPoints: [new URL("../src/engine/thread.ts", import.meta.url).pathname],
  bundle: true,
  write: false,
  format: "esm",
  platform: "node",
  target: "node20",
});
const source = outputFiles[0].text;
const text = `// Written by scripts/embed-engine.js.\nexport const engineSource: string = ${JSON.stringify(source)};\n`;
await writeFile(new URL("../src/engine-source.ts", import.meta.url), text);
