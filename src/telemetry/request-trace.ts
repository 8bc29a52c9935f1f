// What other rooms tell of a request that is recorded as a trace. Nothing here may carry prompt text, output text or keys.

import type { Outcome } from '../shared/request-entry.js';

/** Facts of a span by name: OpenTelemetry's where its conventions have one, else `monolith.…`. Null and undefined are left out. */
export type TraceFacts = Readonly<Record<string, string | number | boolean | readonly string[] | null | undefined>>;

/** A request that may be recorded. */
export interface TracedRequest {
  readonly method: string;
  readonly path: string; // route path
  readonly receivedAt: number; // performance.now()
  header(name: string): string; // lower-case name; '' if absent
}

/** What of a finished request its trace tells: part of its record (outcome.ts). */
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

/** The spans of one recorded request (src/telemetry/traces). Times are performance.now()'s. No text of prompts or answers goes in. */
export interface RequestTrace {
  /** 32 hex digits. */
  readonly id: string;
  /** Of W3C Trace Context, for what is asked of others on its behalf: `traceparent`, and `tracestate` if there is one. */
  readonly headers: Readonly<Record<string, string>>;
  named(name: string): void;
  set(facts: TraceFacts): void;
  /** To the number that stands under this name. */
  add(name: string, count: number): void;
  /** To the list that stands under this name. */
  append(name: string, value: string): void;
  /** A part of it that is over. `error`: the code it ended with. */
  stretch(name: string, from: number, to: number, facts?: TraceFacts, error?: string | null): void;
  /** What goes on after the request was answered: with a record, and so an end, of its own. */
  detached(name: string, receivedAt: number): RequestTrace;
  /** Once; what comes later is left out. */
  end(record: EndedRequest): void;
}
