// OpenTelemetry traces over OTLP/HTTP: which requests are recorded, and what their spans are made with. Event-loop thread
// only; each answering thread has its own.
import type { SpanContext, Tracer } from '@opentelemetry/api';
import type { Resource } from '@opentelemetry/resources';
import type { Sampler } from '@opentelemetry/sdk-trace';
import { VERSION } from '../../shared/version.js';
import type { RequestTrace, TracedRequest } from '../request-trace.js';
import type { Log } from '../types.js';
import { loadPackages } from './packages.js';
import type { OtelPackages, TraceSettings } from './packages.js';
import { RequestSpans } from './request-spans.js';
import { SpanQueue } from './span-queue.js';
import type { SpanCounts } from './span-queue.js';

/** Where none is set, the standard variables of all OpenTelemetry exporters say whether there is a collector. */
function isOn({ endpoint }: TraceSettings, env: NodeJS.ProcessEnv): boolean {
  if (endpoint !== null) return true;
  const off = env['OTEL_SDK_DISABLED']?.toLowerCase() === 'true' || env['OTEL_TRACES_EXPORTER'] === 'none';
  return !off && (env['OTEL_EXPORTER_OTLP_ENDPOINT'] ?? '') !== '';
}

/** Null: traces are off. */
export function openTracing(settings: TraceSettings | undefined, log: Log, thread: number | undefined): Tracing | null {
  return settings === undefined || !isOn(settings, process.env)
    ? null
    : new Tracing(loadPackages(), settings, log, thread);
}

export class Tracing {
  readonly #queue: SpanQueue;
  readonly #tracer: Tracer;

  constructor(
    private readonly otel: OtelPackages,
    settings: TraceSettings,
    log: Log,
    thread: number | undefined,
  ) {
    const resource = resourceOf(otel, thread);
    this.#queue = new SpanQueue(otel, settings, log);
    const provider = new otel.sdk.TracerProvider({
      resource,
      sampler: samplerOf(otel, settings),
      spanProcessors: [this.#queue.processor],
      // Names of tools, ids and numbers: none is long, and none is the client's but for a model's name, which is served.
      spanLimits: { attributeValueLengthLimit: 256 },
    });
    this.#tracer = provider.getTracer('monolith', VERSION);
    this.#queue.onShutdown(() => provider.shutdown());
    log.info({ sample_ratio: settings.sample_ratio, by_parent: settings.by_parent }, 'traces are sent to a collector');
  }

  get counts(): SpanCounts {
    return this.#queue.counts;
  }

  /** Null if it is not among those recorded. */
  begin(request: TracedRequest): RequestTrace | null {
    const { api } = this.otel;
    const parent = this.#parentOf(request.header);
    const context = parent === null ? api.ROOT_CONTEXT : api.trace.setSpanContext(api.ROOT_CONTEXT, parent);
    return RequestSpans.begin(this.otel.api, this.#tracer, context, request);
  }

  /** What was recorded is sent, as far as the collector takes it soon. */
  close(): Promise<void> {
    return this.#queue.close();
  }

  /** Of W3C Trace Context: a `traceparent` that is not one is none, and then there is no `tracestate` either. */
  #parentOf(header: (name: string) => string): SpanContext | null {
    const { core } = this.otel;
    const text = header(core.TRACE_PARENT_HEADER);
    if (text === '') return null;
    const parsed = core.parseTraceParent(text);
    if (parsed === null) return null;
    const state = header(core.TRACE_STATE_HEADER);
    return { ...parsed, isRemote: true, ...(state === '' ? {} : { traceState: new core.TraceState(state) }) };
  }
}

function samplerOf({ sdk }: OtelPackages, { sample_ratio: ratio, by_parent: byParent }: TraceSettings): Sampler {
  const root = new sdk.TraceIdRatioBasedSampler(ratio);
  return byParent ? new sdk.ParentBasedSampler({ root }) : root;
}

/** Who tells: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win over what is known here. */
function resourceOf({ resources }: OtelPackages, thread: number | undefined): Resource {
  return resources
    .defaultResource()
    .merge(
      resources.resourceFromAttributes({
        'service.name': 'monolith',
        'service.version': VERSION,
        'process.pid': process.pid,
        ...(thread === undefined ? {} : { 'monolith.thread': thread }),
      }),
    )
    .merge(resources.detectResources({ detectors: [resources.envDetector] }));
}
