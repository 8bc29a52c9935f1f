// Tests attempt limits and settings leases stored in LMDB while the clock was wrong.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { LmdbAttempts } from '../../src/storage/lmdb/accounts/attempts.js';
import { LmdbEngineHolds } from '../../src/storage/lmdb/dashboard/settings-leases.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import type { Store } from '../../src/storage/store.js';
import { attemptsClockTests } from './attempts.js';

async function opened(t: { teardown(done: () => Promise<void>): void }): Promise<Store> {
  const path = mkdtempSync(join(tmpdir(), 'monolith-attempts-'));
  const store = await openStore(path);
  t.teardown(async () => {
    await store.close();
    rmSync(path, { recursive: true, force: true });
  });
  return store;
}

attemptsClockTests(async (t, now) => new LmdbAttempts(await opened(t), now));

t.test('an engine settings lease taken while the clock was ahead does not block later changes', async (t) => {
  const holds = new LmdbEngineHolds(await opened(t));
  const now = Date.parse('2026-01-01T00:00:00Z');
  const hold = (id: string, until: number) => ({ engine: 'e', id, values: {}, until });
  t.ok(await holds.take(hold('ahead', now + 86_400_000 + 60_000), true, now + 86_400_000));
  t.ok(await holds.take(hold('other', now + 60_000), true, now));
  t.notOk(await holds.take(hold('third', now + 60_000), true, now), 'a lease that is still valid blocks other clients');
  t.same(await holds.endPast(now), []);
  t.ok(await holds.take(hold('other', now + 86_400_000), false, now + 86_390_000));
  t.match(await holds.endPast(now), [{ id: 'other' }]);
});
