// One traced request: a root span from the arrival of the request to the end of its response, with one child span per
// phase. Event-loop thread only.
//
//   chat hal-1.0 ├──────────────────────────────────────────────┤   SERVER
//     prepare     ├─┤                                               INTERNAL, like all below
//     queue          ├───┤
//     prefill            ├────────┤
//     decode                      ├───────────────────────────┤
import { performance } from 'node:perf_hooks';
import type { Attributes, Context, Span, Tracer } from '@opentelemetry/api';
import { wallClock } from '../../shared/wall-clock.js';
import type { EndedRequest, RequestTrace, TracedRequest, SpanAttributes } from '../request-trace.js';

type Api = typeof import('@opentelemetry/api');
type Known = NonNullable<SpanAttributes[string]>;

export class RequestSpans implements RequestTrace {
  readonly #clock = wallClock();
  readonly #context: Context;
  readonly #attributes: Record<string, Known> = {};
  #ended = false;

  private constructor(
    private readonly api: Api,
    private readonly tracer: Tracer,
    context: Context,
    private readonly span: Span,
  ) {
    this.#context = api.trace.setSpan(context, span);
  }

  /** Returns null if the sampler drops the request. */
  static begin(
    api: Api,
    tracer: Tracer,
    context: Context,
    { method, path, receivedAt, header }: TracedRequest,
  ): RequestSpans | null {
    const startTime = wallClock()(receivedAt);
    const span = tracer.startSpan(`${method} ${path}`, { kind: api.SpanKind.SERVER, startTime }, context);
    if (!span.isRecording()) return null;
    const trace = new RequestSpans(api, tracer, context, span);
    trace.set({
      'http.request.method': method === 'WEBSOCKET' ? 'GET' : method,
      'http.route': path,
      'url.path': path,
      'url.scheme': 'http',
      ...addressOf(header('host')),
    });
    return trace;
  }

  get id(): string {
    return this.span.spanContext().traceId;
  }

  get headers(): Readonly<Record<string, string>> {
    const { traceId, spanId, traceFlags, traceState } = this.span.spanContext();
    const state = traceState?.serialize() ?? '';
    return {
      traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`,
      ...(state === '' ? {} : { tracestate: state }),
    };
  }

  named(name: string): void {
    this.span.updateName(name);
  }

  set(attributes: SpanAttributes): void {
    keep(attributes, this.#attributes);
  }

  add(name: string, count: number): void {
    this.#attributes[name] = Number(this.#attributes[name] ?? 0) + count;
  }

  append(name: string, value: string): void {
    const before = this.#attributes[name];
    this.#attributes[name] = Array.isArray(before) ? [...(before as string[]), value] : [value];
  }

  recordSpan(
    name: string,
    from: number,
    to: number,
    attributes: SpanAttributes = {},
    error: string | null = null,
  ): void {
    const span = this.tracer.startSpan(
      name,
      { startTime: this.#clock(from), attributes: keep(attributes, {}) },
      this.#context,
    );
    if (error !== null) this.#fail(span, error);
    span.end(this.#clock(Math.max(from, to)));
  }

  detached(name: string, receivedAt: number): RequestTrace {
    const span = this.tracer.startSpan(name, { startTime: this.#clock(receivedAt) }, this.#context);
    return new RequestSpans(this.api, this.tracer, this.#context, span);
  }

  end({ requestId, status, failure, outcome, organizationId, keyId, method, fields }: EndedRequest): void {
    if (this.#ended) return;
    this.#ended = true;
    this.set({
      'http.response.status_code': method === 'BACKGROUND' || status === 0 ? null : status,
      'error.type': failure?.code,
      'monolith.request.id': requestId,
      'monolith.outcome': outcome,
      'monolith.organization.id': organizationId,
      'monolith.key.id': keyId,
      ...(typeof fields['stream'] === 'boolean' ? { 'monolith.stream': fields['stream'] } : {}),
    });
    this.span.setAttributes(this.#attributes as Attributes);
    // A server span does not report client errors as span errors (OpenTelemetry HTTP conventions).
    if (failure !== null && (failure.status >= 500 || outcome === 'failed'))
      this.span.setStatus({ code: this.api.SpanStatusCode.ERROR, message: failure.code });
    this.span.end(this.#clock(performance.now()));
  }

  #fail(span: Span, error: string): void {
    span.setAttribute('error.type', error);
    span.setStatus({ code: this.api.SpanStatusCode.ERROR, message: error });
  }
}

/** Copies the defined attributes into `into` and returns it. Runs for each span, so it does not allocate lists. */
function keep(attributes: SpanAttributes, into: Record<string, Known>): Attributes {
  for (const name in attributes) {
    const value = attributes[name];
    if (value !== null && value !== undefined) into[name] = value;
  }
  return into as Attributes;
}

/** The address that the client used, from the Host header. It may be a proxy's address. */
function addressOf(host: string): SpanAttributes {
  const [, name, port] = /^(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?$/.exec(host) ?? [];
  return name === undefined || name === ''
    ? {}
    : { 'server.address': name, 'server.port': port === undefined ? null : Number(port) };
}
