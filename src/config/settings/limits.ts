// Settings for rate limits, and for the Redis server in which several processes share their counters.
import { MAX_TOOLS } from '../tool-limit.js';
import * as kind from '../kinds.js';
import { setting } from './setting.js';

export const limits = {
  rpm: setting(
    kind.nullable(kind.integer(1, 1e9)),
    9_999,
    'Requests per minute for each organization and model; off = unlimited.',
  ),
  tpm: setting(
    kind.nullable(kind.integer(1, 1e9)),
    999_999,
    'Input and output tokens per minute for each organization and model; off = unlimited.',
  ),
  read_rpm: setting(
    kind.nullable(kind.integer(1, 1e9)),
    null,
    'Requests per minute for each API key on routes that generate no output (models, token counts, stored responses); off = unlimited.',
    { shown: 'off' },
  ),
  concurrency: setting(
    kind.nullable(kind.integer(1, 1e6)),
    99,
    'Maximum number of unfinished requests for each organization and model; off = unlimited. A request with `n` > 1 counts as `n` requests.',
  ),
  event_loop_ms: setting(
    kind.nullable(kind.integer(1, 1_000)),
    250,
    "Event-loop time, in ms per second and HTTP worker, that reading and validating one organization's large requests (16 KiB or more) may take, with bursts of up to ten seconds' worth. Requests over the limit are rejected with 429; off = unlimited.",
    { renamedFrom: { key: 'limits.loop_ms' } },
  ),
  tpm_default_reservation: setting(
    kind.integer(1, 1e9),
    4_096,
    'Output tokens that a request without an output limit reserves against limits.tpm.',
  ),
  max_n: setting(kind.integer(1, 128), 8, 'Maximum value of `n` (choices per request).'),
  max_tools: setting(kind.integer(1, MAX_TOOLS), 1_024, 'Maximum number of tools in a request.'),
  overrides: setting(
    kind.limitOverrides,
    {},
    'Limits for individual organizations and models, as JSON: {"org_…": {"hal-1.0": {"rpm": 10, "tpm": null}}}. * matches any organization or model; null = unlimited.',
    { shown: 'none' },
  ),
};

export const redis = {
  url: setting(
    kind.nullable(kind.url('redis', 'rediss')),
    null,
    'Redis server (Redis 7 or Valkey) for limits shared by several processes: redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], or rediss:// for TLS. If unset, each process enforces its limits separately.',
    {
      alias: 'redis',
      renamedFrom: { key: 'counters.url', alias: 'counters' },
      secret: true,
      shown: 'none',
    },
  ),
  when_unavailable: setting(
    kind.choice('share', 'refuse'),
    'share',
    'What to do while Redis is unreachable. share: each process enforces an equal share of every limit; refuse: requests are rejected with 503.',
    { renamedFrom: { key: 'counters.away' } },
  ),
  timeout_ms: setting(
    kind.integer(10, 60_000),
    250,
    'Maximum time to wait for Redis, in ms. After a timeout, `redis.when_unavailable` applies until Redis responds again.',
    { renamedFrom: { key: 'counters.timeout_ms' } },
  ),
  lease_ms: setting(
    kind.integer(500, 600_000),
    15_000,
    'Time, in ms, before concurrency slots held by a terminated process are freed.',
    { renamedFrom: { key: 'counters.lease_ms' } },
  ),
  prefix: setting(
    kind.text(1, 64),
    'monolith',
    'Prefix of all Redis keys. Processes with the same prefix share their limits.',
    { renamedFrom: { key: 'counters.prefix' } },
  ),
};
