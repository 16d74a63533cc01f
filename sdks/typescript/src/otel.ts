/**
 * Traces with OpenTelemetry. `worker.use(traced())` makes a span `process <topic>` around every handler. The first
 * attempt of a message continues the trace of its producer. Retries have traces of their own, linked to it.
 */

import { context, ROOT_CONTEXT, type SpanContext, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import type { Context } from "./context.js";
import { textOf } from "./errors.js";
import type { Middleware } from "./handler.js";
import type { Trace } from "./http.js";
import { VERSION } from "./version.js";

/** A middleware that traces handlers. What a handler produces and commits continues its span. */
export function traced(): Middleware {
  return async (ctx, next) => {
    const tracer = trace.getTracer("@driftq/sdk", VERSION);
    const producer = ctx.delivery.trace && spanContextOf(ctx.delivery.trace);
    const isFirst = ctx.delivery.attempts === 1;
    const parent = producer && isFirst ? trace.setSpanContext(ROOT_CONTEXT, producer) : ROOT_CONTEXT;
    const options = {
      kind: SpanKind.CONSUMER,
      attributes: attributesOf(ctx),
      links: producer && !isFirst ? [{ context: producer }] : [],
    };
    const span = tracer.startSpan(`process ${ctx.delivery.topic}`, options, parent);
    const { traceId, spanId, traceFlags } = span.spanContext();
    // Without a provider, the span is not recorded, and the requests continue the trace of the producer.
    if (span.isRecording()) {
      ctx.continueTrace({
        traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`,
      });
    }
    try {
      await context.with(trace.setSpan(parent, span), next);
    } catch (error) {
      span.setStatus({ code: SpanStatusCode.ERROR, message: textOf(error) });
      throw error;
    } finally {
      span.end();
    }
  };
}

function attributesOf({ delivery }: Context) {
  return {
    "messaging.system": "driftq",
    "messaging.operation.type": "process",
    "messaging.destination.name": delivery.topic,
    "messaging.consumer.group.name": delivery.group,
    "messaging.message.id": delivery.id,
    "driftq.attempt": delivery.attempts,
  };
}

function spanContextOf({ traceparent }: Trace): SpanContext | undefined {
  const parts = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})/.exec(traceparent);
  const [, traceId, spanId, flags] = parts ?? [];
  if (!traceId || !spanId || !flags) return undefined;
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true };
}
