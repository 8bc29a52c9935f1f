// Queues spans for the collector, up to a fixed number. Spans that the collector does not accept in time are counted
// and discarded. Requests never wait for the collector. Event-loop thread only.
import type { ExportResult } from '@opentelemetry/core';
import type { ReadableSpan, SpanExporter, SpanProcessor } from '@opentelemetry/sdk-trace';
import type { Log } from '../types.js';
import type { OtelPackages, TraceSettings } from './packages.js';

/** Maximum number of queued or in-flight spans; about 3 MB. */
const MAX_SPANS = 4_096;
/** Number of spans per message. Serializing a message blocks the event loop for about a millisecond. */
const BATCH = 128;
const PAUSE_MS = 1_000;
/** Timeout for a message including retries, and for the flush at process exit. */
const EXPORT_MS = 3_000;

/** Number of spans by outcome. */
export interface SpanCounts {
  sent: number;
  failed: number;
  dropped: number;
}

export class SpanQueue {
  readonly counts: SpanCounts = { sent: 0, failed: 0, dropped: 0 };
  readonly processor: SpanProcessor;
  #waiting = 0;
  #failing = false;
  #shutdown: () => Promise<void> = () => Promise.resolve();

  constructor(
    otel: OtelPackages,
    { endpoint, headers }: TraceSettings,
    private readonly log: Log,
  ) {
    const { OTEL_EXPORTER_OTLP_TIMEOUT: timeout, OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: tracesTimeout } = process.env;
    const exporter = new otel.exporter.OTLPTraceExporter({
      ...(endpoint === null ? {} : { url: endpoint }),
      ...(Object.keys(headers).length === 0 ? {} : { headers: { ...headers } }),
      ...(timeout === undefined && tracesTimeout === undefined ? { timeoutMillis: EXPORT_MS } : {}),
    });
    const batches = new otel.sdk.BatchSpanProcessor({
      exporter: this.#counted(exporter, otel.core.ExportResultCode.SUCCESS),
      maxQueueSize: MAX_SPANS,
      maxExportBatchSize: BATCH,
      scheduledDelayMillis: PAUSE_MS,
      exportTimeoutMillis: EXPORT_MS + 1_000,
    });
    this.processor = {
      onStart: () => undefined,
      onEnd: (span) => {
        if (this.#waiting >= MAX_SPANS) {
          this.counts.dropped++;
          return;
        }
        this.#waiting++;
        batches.onEnd(span);
      },
      forceFlush: () => batches.forceFlush(),
      shutdown: () => batches.shutdown(),
    };
  }

  onShutdown(shutdown: () => Promise<void>): void {
    this.#shutdown = shutdown;
  }

  async close(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, EXPORT_MS);
    });
    await Promise.race([this.#shutdown().catch(() => undefined), late]);
    clearTimeout(timer);
    const { sent, failed, dropped } = this.counts;
    if (failed + dropped + this.#waiting > 0)
      this.log.warn(
        { sent, failed, dropped, left: this.#waiting },
        'some trace spans were not accepted by the collector',
      );
  }

  #counted(exporter: SpanExporter, success: ExportResult['code']): SpanExporter {
    return {
      export: (spans: ReadableSpan[], done: (result: ExportResult) => void) => {
        exporter.export(spans, (result) => {
          this.#waiting -= spans.length;
          const ok = result.code === success;
          this.counts[ok ? 'sent' : 'failed'] += spans.length;
          this.#report(ok, result.error);
          done(result);
        });
      },
      shutdown: () => exporter.shutdown(),
    };
  }

  /** Logs when the collector starts or stops failing, rather than every failed message. */
  #report(ok: boolean, error: Error | undefined): void {
    if (ok !== this.#failing) return;
    this.#failing = !ok;
    if (ok) this.log.info({}, 'trace collector accepts spans again');
    else
      this.log.warn({ reason: error?.message ?? 'unknown' }, 'trace collector does not accept spans, discarding them');
  }
}
