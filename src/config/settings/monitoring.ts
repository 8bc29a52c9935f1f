// Webhooks, metrics and traces.
import * as kind from '../kinds.js';
import { setting } from './setting.js';

export const webhooks = {
  public_only: setting(
    kind.flag,
    true,
    'Send webhooks (events, budget notifications and alerts) to public internet addresses only. Organization admins choose the URLs of events and budget notifications; false also allows addresses in private networks.',
  ),
  timeout_ms: setting(
    kind.integer(100, 600_000),
    10_000,
    'Timeout for each webhook delivery attempt, in ms. For events, at most 5,000 is used.',
  ),
  attempts: setting(
    kind.integer(1, 10),
    4,
    'Maximum number of delivery attempts per budget notification, with increasing delays between them. For alerts, see alerts.retry_s.',
  ),
  retry_s: setting(
    kind.integer(0, 2_592_000),
    86_400,
    'How long, in seconds, to retry delivery of an event to a webhook endpoint. After that, the endpoint is disabled unless it has accepted another event.',
  ),
  max_endpoints: setting(kind.integer(1, 1_000), 10, 'Maximum number of webhook endpoints per organization.'),
};

export const metrics = {
  token: setting(
    kind.nullable(kind.text(16, 512)),
    null,
    "Bearer token that grants access to /metrics and to the full /readyz response. If unset, an operator's API key is required.",
    { secret: true, shown: 'none' },
  ),
  public: setting(kind.flag, false, 'Serve /metrics without authentication.'),
  names: setting(
    kind.choice('both', 'monolith', 'vllm'),
    'both',
    'Metric names to export. monolith: monolith_*; vllm: the names that dashboards and gateways for vLLM expect; both: both sets.',
  ),
};

export const telemetry = {
  traces: {
    endpoint: setting(
      kind.nullable(kind.url('http', 'https')),
      null,
      'OTLP/HTTP endpoint for traces, for example http://localhost:4318/v1/traces. OTEL_EXPORTER_OTLP_ENDPOINT, a URL without /v1/traces, also sets it. If unset, no traces are sent.',
      { variables: ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'] },
    ),
    headers: setting(
      kind.headerFields,
      {},
      'HTTP headers to send to the collector, for example authorization=Bearer ….',
      {
        secret: true,
        shown: 'none',
      },
    ),
    view_url: setting(
      kind.nullable(kind.url('http', 'https')),
      null,
      'URL of a trace in your tracing tool, where {trace_id} is replaced with the trace ID, for example https://jaeger.example.com/trace/{trace_id}. The request log shows operators a link to each trace.',
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
