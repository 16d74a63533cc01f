/** Handlers and the middleware around them. */

import { fromBase64 } from "./base64.js";
import type { Context, Delivery, EffectDefaults } from "./context.js";
import { textOf } from "./errors.js";
import { parseExact } from "./integers.js";
import { Reject } from "./outcomes.js";
import { type StandardSchema, validate } from "./standard-schema.js";

/** A function that handles a message. */
export type Handle = (context: Context) => Promise<void>;

/** Code that runs around every handler. It calls the handler, or the next middleware, with `next`. */
export type Middleware = (context: Context, next: () => Promise<void>) => Promise<void>;

/** A handler and what it handles. */
export interface Handler {
  readonly topic: string;
  readonly group: string;
  readonly concurrency: number;
  readonly effectDefaults: EffectDefaults;
  readonly handle: Handle;
}

/** The value of a delivery, as it was sent. */
export function rawValue({ value, value_base64 }: Delivery): string | Uint8Array {
  return value_base64 === undefined ? (value ?? "") : fromBase64(value_base64);
}

/** The value of a delivery as JSON that matches the schema. A value that cannot be read is a dead letter. */
export async function readValue(delivery: Delivery, schema: StandardSchema | undefined): Promise<unknown> {
  const raw = rawValue(delivery);
  if (typeof raw !== "string") throw new Reject("decode: the value is not text");
  let value: unknown;
  try {
    value = parseExact(raw);
  } catch (error) {
    throw new Reject(`decode: ${textOf(error)}`, { cause: error });
  }
  if (!schema) return value;
  const validated = await validate(schema, value);
  if (validated.wrong !== undefined) throw new Reject(`decode: ${validated.wrong}`);
  return validated.value;
}

/** A handler that runs the middleware around `handle`. The first middleware is the outermost. */
export function around(middleware: readonly Middleware[], handle: Handle): Handle {
  return middleware.reduceRight<Handle>(
    (next, middle) => async (context) => middle(context, () => next(context)),
    handle,
  );
}
