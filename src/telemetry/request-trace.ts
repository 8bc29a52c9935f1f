// The interface through which other modules add to a request's trace. Traces must not contain prompt text, output text
// or keys.

import type { Outcome } from '../shared/request-entry.js';

/**
 * A span's attributes by name: OpenTelemetry's name where its conventions define one, otherwise `monolith.…`. Null and
 * undefined values are omitted.
 */
export type SpanAttributes = Readonly<Record<string, string | number | boolean | readonly string[] | null | undefined>>;

/** A request that may be traced. */
export interface TracedRequest {
  readonly method: string;
  readonly path: string; // route path
  readonly receivedAt: number; // performance.now()
  header(name: string): string; // lower-case name; '' if absent
}

/** The part of a finished request's record (outcome.ts) that its trace uses. */
export interface EndedRequest {
  readonly requestId: string;
  readonly method: string;
  readonly status: number;
  readonly failure: { readonly code: string; readonly status: number } | null;
  readonly outcome: Outcome;
  readonly organizationId: string | null;
  readonly keyId: string | null;
  readonly fields: Readonly<Record<string, string | number | boolean | null>>;
}

/**
 * The spans of one traced request (src/telemetry/traces). Times are performance.now() values. Must not contain prompt
 * or output text.
 */
export interface RequestTrace {
  /** 32 hex digits. */
  readonly id: string;
  /** W3C Trace Context headers for outgoing requests: `traceparent`, and `tracestate` if there is one. */
  readonly headers: Readonly<Record<string, string>>;
  named(name: string): void;
  set(attributes: SpanAttributes): void;
  /** Adds a value to the numeric attribute with this name. */
  add(name: string, count: number): void;
  /** Appends a value to the list attribute with this name. */
  append(name: string, value: string): void;
  /** Records a completed child span. `error`: the error code with which it ended. */
  recordSpan(name: string, from: number, to: number, attributes?: SpanAttributes, error?: string | null): void;
  /** Starts a trace for work that continues after the response. It is recorded and ended separately. */
  detached(name: string, receivedAt: number): RequestTrace;
  /** Must be called once; later calls have no effect. */
  end(record: EndedRequest): void;
}
