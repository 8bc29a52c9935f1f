// Webhooks, metrics and traces.
import * as kind from '../kinds.js';
import { setting } from './setting.js';

export const webhooks = {
  public_only: setting(
    kind.flag,
    true,
    'Send webhooks (budget notifications and alerts) to public internet addresses only. Organization admins choose the URLs of budget notifications; false also allows addresses in private networks.',
  ),
  timeout_ms: setting(kind.integer(100, 600_000), 10_000, 'Maximum time for one webhook attempt, in ms.'),
  attempts: setting(
    kind.integer(1, 10),
    4,
    'Attempts per budget webhook, with increasing delays. For alerts, see alerts.retry_s.',
  ),
};

export const metrics = {
  token: setting(
    kind.nullable(kind.text(16, 512)),
    null,
    "Bearer token that may read /metrics and the full /readyz. If unset, an operator's API key is needed.",
    { secret: true, shown: 'none' },
  ),
  public: setting(kind.flag, false, 'Serve /metrics without authentication.'),
  names: setting(
    kind.choice('both', 'monolith', 'vllm'),
    'both',
    'Names of the metrics. monolith: monolith_*; vllm: the names that dashboards and gateways for vLLM expect; both: both sets.',
  ),
};

export const telemetry = {
  traces: {
    endpoint: setting(
      kind.nullable(kind.url('http', 'https')),
      null,
      'OTLP/HTTP endpoint for traces, for example http://localhost:4318/v1/traces. OTEL_EXPORTER_OTLP_ENDPOINT also sets it, without /v1/traces. If unset, no traces are sent.',
      { variables: ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'] },
    ),
    headers: setting(kind.headerFields, {}, 'HTTP headers to send to the collector, such as authorization=Bearer ….', {
      secret: true,
      shown: 'none',
    }),
    view_url: setting(
      kind.nullable(kind.url('http', 'https')),
      null,
      'URL of a trace in your tracing tool, where {trace_id} stands for its ID, such as https://jaeger.example.com/trace/{trace_id}. Operators get a link to it in the request log.',
    ),
    sample_ratio: setting(
      kind.share,
      1,
      "Fraction of requests to trace, 0 to 1. With telemetry.traces.by_parent, the sampled flag of a client's traceparent takes precedence.",
    ),
    by_parent: setting(
      kind.flag,
      true,
      "Follow the sampled flag of the client's traceparent. false: telemetry.traces.sample_ratio applies to all requests. Use false if clients are untrusted.",
    ),
  },
};
