// A data directory that a test can open while a server is using it, with keys for two organizations.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { NewKey } from '../../src/accounts/api-keys.js';
import type { Organization } from '../../src/accounts/keys.js';
import { openAccounts } from '../../src/storage/lmdb/accounts/directory.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import type { Store } from '../../src/storage/store.js';

export function dataFolder(): { path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), 'monolith-data-'));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

/** Opens a running server's database from this process. */
export async function inside<T>(path: string, work: (store: Store) => Promise<T>): Promise<T> {
  const store = await openStore(path);
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

/**
 * Creates a key and returns its secret. The key belongs to the first organization or to a second one, which is created
 * if needed.
 */
export function keyOf(path: string, which: 'first' | 'second', options: Partial<NewKey> = {}): Promise<string> {
  return inside(path, async (store) => {
    const accounts = openAccounts(store);
    const second: Organization = {
      id: `org_${'B'.repeat(24)}`,
      tenant: 2,
      name: 'Second',
      status: 'active',
      createdAt: new Date().toISOString(),
    };
    if (which === 'second') await store.table<Organization>('organizations').insert(second.id, second);
    const { secret } = await accounts.createKey(
      { name: 'a test key', ...options },
      which === 'second' ? second.id : undefined,
    );
    await accounts.close();
    return secret;
  });
}
