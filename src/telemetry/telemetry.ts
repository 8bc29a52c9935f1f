// Metrics and the request log of one server. Event-loop thread only.

import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { IntervalHistogram } from 'node:perf_hooks';
import { Instruments } from './instruments.js';
import { createLog } from './logger.js';
import type { LogOptions } from './logger.js';
import { Meter } from './meter.js';
import type { EngineGauges, GenerationLabels, GenerationMeter, Log, RequestRecord, Telemetry } from './types.js';

// The delay histogram samples a timer of this period; what exceeds the period is lag.
const LOOP_RESOLUTION_MS = 10;

export function createTelemetry(options: LogOptions): Telemetry {
  return new ServerTelemetry(createLog(options));
}

class ServerTelemetry implements Telemetry {
  private readonly instruments = new Instruments();
  private readonly loopDelay: IntervalHistogram = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION_MS });
  private readEngines: () => EngineGauges[] = () => [];

  constructor(readonly log: Log) {
    this.loopDelay.enable();
  }

  generation(labels: GenerationLabels): GenerationMeter {
    return new Meter(labels, this.instruments);
  }

  request(record: RequestRecord): void {
    const { path: endpoint, code, status } = record;
    this.instruments.requests.inc({ endpoint, status: String(status), code: code ?? '' });
    if (status === 429 || status === 503) this.instruments.rejects.inc({ endpoint, code: code ?? '' });
    const line = {
      request_id: record.requestId, client_request_id: record.clientRequestId, method: record.method, path: endpoint,
      status, code, organization: record.organizationId, key: record.keyId, ms: record.durationMs,
      ...(record.aborted ? { aborted: true } : {}), ...record.fields,
    };
    // Probes and scrapes come every few seconds and say nothing when they succeed.
    const routine = status === 200 && (endpoint === '/metrics' || !endpoint.startsWith('/v1'));
    if (routine) this.log.debug(line, 'request');
    else if (status >= 500) this.log.warn(line, 'request');
    else this.log.info(line, 'request');
  }

  observeEngines(read: () => EngineGauges[]): void {
    this.readEngines = read;
  }

  async scrape(): Promise<string> {
    this.instruments.collect(this.readEngines(), this.loopLagMs());
    this.loopDelay.reset();
    return this.instruments.registry.metrics();
  }

  loopLagMs(): number {
    const delay = this.loopDelay.percentile(99) / 1e6;
    return Number.isFinite(delay) ? Math.max(0, delay - LOOP_RESOLUTION_MS) : 0;
  }

  close(): void {
    this.loopDelay.disable();
  }
}
