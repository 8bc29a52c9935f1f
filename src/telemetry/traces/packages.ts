// Loads the official OpenTelemetry packages, but only if traces are enabled. They are CommonJS, so they can be loaded
// synchronously on demand.
import { createRequire } from 'node:module';
import type { Config } from '../../config/settings.js';

export type TraceSettings = Config['telemetry']['traces'];

const require = createRequire(import.meta.url);

export interface OtelPackages {
  readonly api: typeof import('@opentelemetry/api');
  readonly core: typeof import('@opentelemetry/core');
  readonly sdk: typeof import('@opentelemetry/sdk-trace');
  readonly resources: typeof import('@opentelemetry/resources');
  readonly exporter: typeof import('@opentelemetry/exporter-trace-otlp-proto');
}

export function loadPackages(): OtelPackages {
  return {
    api: require('@opentelemetry/api') as OtelPackages['api'],
    core: require('@opentelemetry/core') as OtelPackages['core'],
    sdk: require('@opentelemetry/sdk-trace') as OtelPackages['sdk'],
    resources: require('@opentelemetry/resources') as OtelPackages['resources'],
    exporter: require('@opentelemetry/exporter-trace-otlp-proto') as OtelPackages['exporter'],
  };
}
