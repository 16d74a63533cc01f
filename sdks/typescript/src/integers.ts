/** JSON whose integers are exact. JavaScript reads an integer beyond 2^53 as its neighbour, without an error. */

import { Invalid } from "./errors.js";

/** Reads JSON. Fails if it has an integer that cannot be represented. */
export function parseExact(text: string): unknown {
  const value: unknown = JSON.parse(text);
  const integer = unsafeInteger(text);
  if (integer !== undefined) {
    throw new Invalid(`the integer ${integer} is beyond 2^53; read the message with raw: true`);
  }
  return value;
}

/** Writes JSON. Fails on what JSON cannot represent. */
export function stringifyExact(value: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value, exact);
  } catch (error) {
    if (error instanceof Invalid) throw error;
    throw new Invalid("the value is not JSON", { cause: error });
  }
  if (text === undefined) throw new Invalid(`the value is not JSON: ${typeof value}`);
  return text;
}

function exact(_name: string, value: unknown): unknown {
  if (typeof value !== "number") return value;
  if (!Number.isFinite(value)) throw new Invalid(`${value} is not JSON`);
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
    throw new Invalid(`the integer ${value} is beyond 2^53; send it as text`);
  }
  return value;
}

/** The first integer of a JSON text that is beyond 2^53. */
export function unsafeInteger(json: string): string | undefined {
  // Most texts have no such number, and are not searched.
  if (!/\d{16}/.test(json)) return undefined;
  const token = /[",:[\]{}\s]|-?[0-9][0-9.eE+-]*/g;
  for (let found = token.exec(json); found; found = token.exec(json)) {
    const [text] = found;
    if (text === '"') token.lastIndex = endOfString(json, found.index);
    else if (/^-?\d+$/.test(text) && !Number.isSafeInteger(Number(text))) return text;
  }
  return undefined;
}

function endOfString(json: string, start: number): number {
  for (let at = start + 1; at < json.length; at += 1) {
    if (json[at] === "\\") at += 1;
    else if (json[at] === '"') return at + 1;
  }
  return json.length;
}
