// Settings for operator alerts: destinations and thresholds.
import * as kind from '../kinds.js';
import { setting } from './setting.js';

export const alerts = {
  mail: setting(
    kind.addresses,
    [],
    'Email addresses that receive alerts; requires mail.smtp_url. Give all processes of a service the same alerts settings.',
    { shown: 'none' },
  ),
  webhooks: setting(
    kind.urls,
    [],
    'URLs that receive alerts as signed JSON; requires alerts.webhook_secret. See docs/guides/monitoring.md.',
    { secret: true, shown: 'none' },
  ),
  webhook_secret: setting(
    kind.nullable(kind.text(16, 512)),
    null,
    'Secret that signs the requests to alerts.webhooks (header monolith-signature).',
    { secret: true, shown: 'none' },
  ),
  slack: setting(
    kind.urls,
    [],
    'Incoming-webhook URLs of Slack or Mattermost that receive alerts as text; for Discord, append /slack to the URL.',
    { secret: true, shown: 'none' },
  ),
  error_rate: setting(
    kind.nullable(kind.share),
    0.05,
    'Fraction of API requests that end with a server error (5xx), 0 to 1, above which an alert is raised; off = not measured.',
  ),
  objectives: setting(
    kind.nullable(kind.text(1, 1_024)),
    null,
    'Latency objectives for each model, such as ttft_p99=2s,tpot_p95=100ms, in the notation of --slo. An alert is raised when a model misses an objective.',
    { shown: 'none' },
  ),
  disk_free_bytes: setting(
    kind.bytes(0, 2 ** 50),
    1024 ** 3,
    "Free space on the data directory's disk below which an alert is raised; 0 = not measured.",
  ),
  budgets: setting(
    kind.flag,
    true,
    "Alert operators when an organization's, a member's or an API key's budget is spent.",
  ),
  down_s: setting(
    kind.integer(0, 86_400),
    60,
    'Time without a heartbeat, in seconds, after which another process reports a process as down; only with database.url. The effective minimum is 15; 0 = not measured.',
  ),
  window_s: setting(
    kind.integer(10, 86_400),
    300,
    'Period, in seconds, over which the error rate and the latencies are measured.',
  ),
  min_requests: setting(
    kind.integer(1, 1e6),
    20,
    'Minimum number of requests (for latencies: of measured values) in alerts.window_s. With fewer, no alert is raised.',
  ),
  clear_s: setting(
    kind.integer(0, 86_400),
    300,
    'How long, in seconds, a value must be back within its threshold, with a margin of 20%, before an alert ends.',
  ),
  retry_s: setting(
    kind.integer(0, 604_800),
    3_600,
    'How long, in seconds, to retry a failed delivery, with increasing delays; 0 = one attempt.',
  ),
};
