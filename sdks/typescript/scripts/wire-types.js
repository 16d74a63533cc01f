// Writes the types of requests and responses (src/wire.ts) from the OpenAPI document of the server, for
// the schemas that the SDK uses. A test compares the file with what this script would write.
import { readFile, writeFile } from "node:fs/promises";
import openapi, { astToString } from "openapi-typescript";

const DOCUMENT = new URL("../../../docs/reference/openapi.json", import.meta.url);
const TYPES = new URL("../src/wire.ts", import.meta.url);

const USED = [
  "Began",
  "Begin",
  "Commit",
  "Delivery",
  "Finish",
  "Produce",
  "Receipt",
  "Receive",
  "SettleItem",
];

const OPTIONS = { alphabetize: true, defaultNonNullable: false };

const HEAD = `// Generated from docs/reference/openapi.json by scripts/wire-types.js. Do not edit.
`;

/** The text of src/wire.ts. */
export async function wireTypes() {
  const { openapi: version, info, components } = JSON.parse(await readFile(DOCUMENT, "utf8"));
  const schemas = {};
  const add = (name) => {
    if (schemas[name]) return;
    const schema = components.schemas[name];
    if (!schema) throw new Error(`${DOCUMENT.pathname} has no schema ${name}`);
    // Which fields exclude each other is for the server to check.
    const { oneOf, anyOf, ...fields } = schema;
    schemas[name] = schema.properties ? fields : schema;
    for (const [, used] of JSON.stringify(schema).matchAll(/"#\/components\/schemas\/(\w+)"/g)) add(used);
  };
  USED.forEach(add);
  const tree = await openapi({ openapi: version, info, paths: {}, components: { schemas } }, OPTIONS);
  const text = astToString(tree);
  return HEAD + text.slice(text.indexOf("export interface components"), text.indexOf("export type $defs"));
}

if (process.argv[1] === new URL(import.meta.url).pathname) await writeFile(TYPES, await wireTypes());
