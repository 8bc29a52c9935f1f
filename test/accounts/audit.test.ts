// Runs the audit log tests on a real database.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LmdbAuditLog } from '../../src/storage/lmdb/accounts/audit-log.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import { auditLogTests } from './audit-log.js';

auditLogTests(async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'monolith-audit-'));
  const store = await openStore(path);
  t.teardown(async () => {
    await store.close();
    rmSync(path, { recursive: true, force: true });
  });
  return new LmdbAuditLog(store);
});
