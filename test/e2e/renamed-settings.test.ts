// Tests former setting names on a running server and in a command: they work, and each is reported once.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { startScripted } from '../support/script-model.js';
import { main } from './monolith.js';
import { makeDatabase } from '../../src/storage/lmdb/lmdb-store.js';

t.setTimeout(300_000); // the machine may be busy

const folder = mkdtempSync(join(tmpdir(), 'monolith-renamed-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));

t.test('the server logs one line for each former name, even with several HTTP workers', async (t) => {
  const file = join(folder, 'settings.json');
  writeFileSync(file, JSON.stringify({ counters: { prefix: 'own' } }));
  const server = await startScripted({
    args: ['--config', file, '--state-away-s', '5', '--http-threads', '2', '--redis-lease-ms', '5000'],
    env: { MONOLITH_LIMITS_LOOP_MS: '9' },
  });
  t.teardown(() => server.stop());
  const lines = server
    .log()
    .split('\n')
    .filter((line) => line.includes('setting renamed'))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  t.match(lines, [
    {
      level: 'warn',
      msg: 'setting renamed, update the configuration',
      old: 'state.away_s',
      new: 'database.stale_keys_s',
      source: '--state-away-s',
    },
    { old: 'limits.loop_ms', new: 'limits.event_loop_ms', source: 'MONOLITH_LIMITS_LOOP_MS' },
    { old: 'counters.prefix', new: 'redis.prefix', source: `${file}: counters.prefix` },
  ]);
  t.equal(lines.length, 3);
});

t.test('a command prints a notice, and fails if both names are set', (t) => {
  const list = (...args: string[]): { status: number | null; stderr: string } =>
    spawnSync(process.execPath, [main, 'keys', 'list', '--data-dir', join(folder, 'data'), ...args], {
      encoding: 'utf8',
      timeout: 240_000,
    });
  makeDatabase(join(folder, 'data'));
  const old = list('--state-away-s', '5');
  t.equal(old.status, 0, old.stderr);
  t.equal(
    old.stderr,
    'monolith: --state-away-s: the setting state.away_s was renamed to database.stale_keys_s; update the configuration\n',
  );
  t.equal(list('--database-stale-keys-s', '5').stderr, '');
  const both = list('--state-away-s', '5', '--database-stale-keys-s', '6');
  t.equal(both.status, 2);
  t.match(both.stderr, /^monolith: --state-away-s: is the former name of --database-stale-keys-s, and both are set\./);
  t.end();
});
