// Writes a second organization, for benchmarks, into the database of a running server.
import type { Organization } from '../../src/accounts/keys.js';
import { openAccounts } from '../../src/storage/lmdb/accounts/directory.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';

/** Creates the organization and an API key for it in the database in `data`, and returns the key. */
export async function keyOfAnother(data: string): Promise<string> {
  const store = await openStore(data);
  const accounts = openAccounts(store);
  const second: Organization = {
    id: `org_${'B'.repeat(24)}`,
    tenant: 2,
    name: 'Second',
    status: 'active',
    createdAt: new Date().toISOString(),
  };
  await store.table<Organization>('organizations').insert(second.id, second);
  const { secret } = await accounts.createKey({ name: 'bench' }, second.id);
  await accounts.close();
  await store.close();
  return secret;
}
