// OpenTelemetry traces over OTLP/HTTP: decides which requests are traced and creates their spans. Event-loop thread
// only; each HTTP worker has its own instance.
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

/** If the setting is absent, the standard OpenTelemetry environment variables determine whether traces are enabled. */
function isOn({ endpoint }: TraceSettings, env: NodeJS.ProcessEnv): boolean {
  if (endpoint !== null) return true;
  const off = env['OTEL_SDK_DISABLED']?.toLowerCase() === 'true' || env['OTEL_TRACES_EXPORTER'] === 'none';
  return !off && (env['OTEL_EXPORTER_OTLP_ENDPOINT'] ?? '') !== '';
}

/** Null if traces are disabled. */
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
      // Attributes are tool names, IDs and numbers, all of them short. The only attribute that a client supplies is the
      // model name, which is always the name of a served model.
      spanLimits: { attributeValueLengthLimit: 256 },
    });
    this.#tracer = provider.getTracer('monolith', VERSION);
    this.#queue.onShutdown(() => provider.shutdown());
    log.info({ sample_ratio: settings.sample_ratio, by_parent: settings.by_parent }, 'sending traces to a collector');
  }

  get counts(): SpanCounts {
    return this.#queue.counts;
  }

  /** Null if the request is not sampled. */
  begin(request: TracedRequest): RequestTrace | null {
    const { api } = this.otel;
    const parent = this.#parentOf(request.header);
    const context = parent === null ? api.ROOT_CONTEXT : api.trace.setSpanContext(api.ROOT_CONTEXT, parent);
    return RequestSpans.begin(this.otel.api, this.#tracer, context, request);
  }

  /** Sends the recorded spans, waiting a limited time for the collector. */
  close(): Promise<void> {
    return this.#queue.close();
  }

  /**
   * The parent span from the W3C Trace Context headers. An invalid `traceparent` is ignored, and so is its
   * `tracestate`.
   */
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

/**
 * The resource that identifies this process. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override the values set
 * here.
 */
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
