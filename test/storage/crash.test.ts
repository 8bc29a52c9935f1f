// Sends SIGKILL while 16 writers are saving. Every response whose save resolved must be complete, including its chain,
// no response may be partial, and data written ahead by an interrupted save must be removed at the next start.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import { openResponseStore } from '../../src/storage/lmdb/responses/open-response-store.js';
import type { TableName } from '../../src/storage/store.js';
import { endsWithParent } from '../e2e/monolith.js';
import { isWhole } from './whole.js';

t.setTimeout(300_000); // the machine may be busy

const KILLS = 5;

t.test('acknowledged responses survive a SIGKILL at any time', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'monolith-crash-'));
  t.teardown(() => rmSync(path, { recursive: true, force: true }));
  const saved = new Map<string, string | null>();
  for (let round = 0; round < KILLS; round++) {
    const child = spawn(process.execPath, [...endsWithParent, join(import.meta.dirname, 'saver.js'), path, '16'], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (part: string) => {
      text += part;
    });
    const closed = once(child, 'close');
    await once(child.stdout, 'data');
    await sleep(Math.random() * 250);
    child.kill('SIGKILL');
    await closed;
    const lines = text.split('\n').slice(0, -1);
    for (const line of lines) {
      const [id, previousId] = line.split(' ') as [string, string];
      saved.set(id, previousId === '' ? null : previousId);
    }
    t.ok(lines.length > 0, `${lines.length} responses saved before kill ${round + 1}`);
  }

  const store = await openStore(path);
  const responses = openResponseStore(store, { retention_days: 30 });
  t.teardown(async () => {
    await responses.close();
    await store.close();
  });
  await responses.sweep();
  const broken: string[] = [];
  for (const [id, previousId] of saved) {
    if (!(await isWhole(responses, id, previousId))) broken.push(id);
  }
  t.same(broken, [], `${saved.size} acknowledged responses are complete`);

  const keys = (name: TableName) => [...store.table(name).keys()];
  const all = keys('responses') as string[];
  t.ok(all.length >= saved.size);
  const whole = await Promise.all(all.map((id) => isWhole(responses, id)));
  t.same(
    all.filter((_, at) => whole[at] !== true),
    [],
    'responses that were stored but not acknowledged are complete too',
  );
  const known = new Set(all);
  for (const [table, at] of [
    ['response-items', 3],
    ['response-images', 0],
    ['response-times', 2],
  ] as const) {
    t.same(
      keys(table).filter((key) => !known.has(key[at] as string)),
      [],
      `every row of ${table} belongs to a response`,
    );
  }
  t.equal(keys('response-times').length, all.length);
});
