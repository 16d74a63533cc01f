/** Messages to produce. */

import { toBase64 } from "./base64.js";
import { type Duration, toMs } from "./duration.js";
import { Invalid } from "./errors.js";
import { stringifyExact } from "./integers.js";
import { type StandardSchema, validate } from "./standard-schema.js";
import type { components } from "./wire.js";

type Produce = components["schemas"]["Produce"];
type Envelope = components["schemas"]["Envelope"];

/** How a message is stored. */
export interface MessageOptions<S extends StandardSchema = StandardSchema> {
  /** Messages with the same key are in the same partition. */
  key?: string;
  /** While it is in use, the message is stored once. */
  idempotencyKey?: string;
  tenant?: string;
  /** The run that the message belongs to. */
  runId?: string;
  /** After this time the message is not delivered. */
  deadline?: Date;
  labels?: Record<string, string>;
  headers?: Record<string, string>;
  retryPolicy?: { maxAttempts?: number; backoff?: Duration; maxBackoff?: Duration };
  /** Other fields of the envelope, by their names in the API. */
  envelope?: Envelope;
  /** The value must match this schema. It is sent as it is given, without the changes that the schema makes. */
  schema?: S;
  /** The value is text or bytes, and is sent as it is. */
  raw?: boolean;
}

/** A message to produce. {@link message} makes one. */
export interface Message {
  readonly topic: string;
  readonly value: unknown;
  readonly options: MessageOptions;
}

/** A message whose value is `value` as JSON. Bytes are sent as they are. */
export function message(topic: string, value: unknown, options: MessageOptions = {}): Message {
  return { topic, value, options };
}

export function hasKey({ options }: Message): boolean {
  return Boolean(options.idempotencyKey ?? options.envelope?.idempotency_key);
}

/** The message as it is sent. Fails if its value does not match its schema or cannot be sent. */
export async function encode({ topic, value, options }: Message): Promise<Produce> {
  if (options.schema) {
    const { wrong } = await validate(options.schema, value);
    if (wrong !== undefined) throw new Invalid(`the value for ${topic} is not valid: ${wrong}`);
  }
  const produce: Produce = { topic, ...encodeValue(value, options.raw === true) };
  if (options.key !== undefined) produce.key = options.key;
  const envelope = envelopeOf(options);
  if (Object.keys(envelope).length > 0) produce.envelope = envelope;
  return produce;
}

function encodeValue(value: unknown, isRaw: boolean): Pick<Produce, "value" | "value_base64"> {
  if (value instanceof Uint8Array) return { value_base64: toBase64(value) };
  if (!isRaw) return { value: stringifyExact(value) };
  if (typeof value === "string") return { value };
  throw new Invalid("a raw value must be a string or a Uint8Array");
}

function envelopeOf(options: MessageOptions): Envelope {
  const envelope: Envelope = { ...options.envelope };
  const { idempotencyKey, tenant, runId, deadline, labels, headers, retryPolicy } = options;
  if (idempotencyKey !== undefined) envelope.idempotency_key = idempotencyKey;
  if (tenant !== undefined) envelope.tenant_id = tenant;
  if (runId !== undefined) envelope.run_id = runId;
  if (deadline !== undefined) envelope.deadline = timeOf(deadline);
  if (labels !== undefined) envelope.labels = labels;
  if (headers !== undefined) envelope.headers = headers;
  if (retryPolicy !== undefined) {
    const { maxAttempts, backoff, maxBackoff } = retryPolicy;
    envelope.retry_policy = {
      ...(maxAttempts === undefined ? {} : { max_attempts: maxAttempts }),
      ...(backoff === undefined ? {} : { backoff_ms: toMs(backoff, "retryPolicy.backoff") }),
      ...(maxBackoff === undefined ? {} : { max_backoff_ms: toMs(maxBackoff, "retryPolicy.maxBackoff") }),
    };
  }
  return envelope;
}

function timeOf(deadline: Date): string {
  if (Number.isNaN(deadline.getTime())) throw new Invalid("deadline: the date is not valid");
  return deadline.toISOString();
}
