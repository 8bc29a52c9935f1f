// Settings for the database, its keys and backups, and for how long usage and the request log are kept.
import * as kind from '../kinds.js';
import { setting } from './setting.js';

export const database = {
  url: setting(
    kind.nullable(kind.databaseUrl),
    null,
    'PostgreSQL database that several servers share: postgres://user:password@host:5432/name. If unset, all data is stored in the data directory. See docs/guides/scaling.md.',
    {
      alias: 'database',
      renamedFrom: { key: 'state.url', alias: 'state' },
      secret: true,
      shown: 'the data directory',
    },
  ),
  connections: setting(
    kind.integer(2, 1_000),
    10,
    'Maximum database connections per HTTP worker, not counting one connection for notifications.',
    { renamedFrom: { key: 'state.connections' } },
  ),
  timeout_ms: setting(
    kind.integer(100, 600_000),
    5_000,
    'Maximum time to wait for a database connection and for one statement, in ms. The request is then rejected with 503.',
    { renamedFrom: { key: 'state.timeout_ms' } },
  ),
  stale_keys_s: setting(
    kind.integer(0, 86_400),
    60,
    'How long, in seconds, known API keys stay valid while the database is unreachable. Requests with other keys are rejected with 503.',
    { renamedFrom: { key: 'state.away_s' } },
  ),
};

export const secrets = {
  signing_keys: setting(
    kind.list,
    [],
    'Keys that sign thinking blocks and encrypt reasoning, 64 hexadecimal digits each: the current key first, then older keys that are still accepted. If unset, a key is created and stored in the database.',
    { secret: true, shown: 'created' },
  ),
};

export const backups = {
  folder: setting(
    kind.nullable(kind.path),
    null,
    'Directory for scheduled backups of the database. Cannot be used with database.url. See docs/guides/production.md.',
    { shown: 'no backups' },
  ),
  hours: setting(kind.integer(1, 8_760), 24, 'Hours between two backups.'),
  keep: setting(kind.integer(1, 10_000), 7, 'Number of backups in the directory. The oldest are deleted first.'),
};

export const usage = {
  row_days: setting(kind.integer(1, 36_500), 90, "Number of days to keep each request's usage row."),
  aggregate_days: setting(kind.integer(1, 36_500), 730, 'Number of days to keep hourly usage totals.'),
};

export const requests = {
  days: setting(
    kind.integer(0, 365),
    7,
    'Number of days to keep the request log; 0 = no request log. The log contains prompts and responses only for organizations that enable this.',
  ),
  max_rows: setting(
    kind.integer(1_000, 1e8),
    500_000,
    'Maximum entries in the request log. The oldest are deleted first.',
  ),
  max_bytes: setting(
    kind.bytes(1_048_576, 2 ** 40),
    536_870_912,
    'Approximate maximum size of the request log, in bytes. The oldest entries are deleted first.',
  ),
  text_characters: setting(
    kind.integer(100, 1e6),
    32_768,
    'Maximum characters of each prompt, and of each response, that the request log keeps for organizations that enable this.',
  ),
};
