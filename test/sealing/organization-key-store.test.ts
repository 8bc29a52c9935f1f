// Tests organizations' sealed keys, in the data directory and in the shared database.
import t, { type Test } from 'tap';
import type { OrganizationKeyStore } from '../../src/accounts/sealing/organization-key-store.js';
import { LmdbOrganizationKeyStore } from '../../src/storage/lmdb/accounts/organization-key-store.js';
import { PostgresOrganizationKeyStore } from '../../src/storage/postgres/accounts/organization-key-store.js';
import { databaseFor, postgresFor } from '../support/databases.js';
import { ownStore } from '../support/own-store.js';
import { withoutPostgres } from '../support/postgres.js';

async function check(t: Test, keys: OrganizationKeyStore): Promise<void> {
  t.equal(await keys.keyOf('org_a', 'first'), 'first');
  t.equal(await keys.keyOf('org_a', 'second'), 'first', 'a key is made once');
  t.equal(await keys.keyOf('org_b', 'other'), 'other');
  await keys.replace('org_a', 'wrong', 'third');
  t.equal(await keys.keyOf('org_a', 'x'), 'first');
  await keys.replace('org_a', 'first', 'third');
  t.equal(await keys.keyOf('org_a', 'x'), 'third');
  await keys.erase('org_a');
  await keys.erase('org_a');
  t.equal(await keys.keyOf('org_a', 'new'), 'new', 'after its erasure, nothing of the old key is left');
  t.equal(await keys.keyOf('org_b', 'x'), 'other');
}

t.test('in the data directory', async (t) => check(t, new LmdbOrganizationKeyStore(await ownStore(t, 'keys'))));

t.test('in the shared database', { skip: withoutPostgres }, async (t) =>
  check(t, new PostgresOrganizationKeyStore(await databaseFor(t, await postgresFor(t)))),
);
