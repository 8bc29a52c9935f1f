// Implements SealerState on the shared database's secrets and settings. All processes without configured keys share one
// generated key.

import { randomBytes } from 'node:crypto';
import type { Database } from '../database.js';
import { putSetting, settingOf } from '../setting-rows.js';
import { SECRET_BYTES } from '../../../accounts/sealing/key-ring.js';
import { GRACE_MS, knownNames } from '../../../accounts/sealing/sealer-state.js';
import type { SealerState, StoredKey } from '../../../accounts/sealing/sealer-state.js';

const MADE_KEY = 'signing-key';
const ALL = 'all';

export class PostgresSealerState implements SealerState {
  constructor(
    private readonly database: Database,
    private readonly now: () => number = Date.now,
  ) {}

  async madeKey(replaced: boolean): Promise<Uint8Array | null> {
    const sql = this.database;
    if (!replaced)
      await sql.execute('INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING', [
        MADE_KEY,
        randomBytes(SECRET_BYTES),
      ]);
    const now = this.now();
    // When configured keys replaced this key; null while this key is the current one.
    const [made] = await sql.query<{ value: Buffer; replaced_at: number | null }>(
      'UPDATE secrets SET replaced_at = CASE WHEN $2 THEN coalesce(replaced_at, $3::bigint) END WHERE name = $1 RETURNING value, replaced_at',
      [MADE_KEY, replaced, now],
    );
    return made === undefined || (made.replaced_at !== null && now - made.replaced_at >= GRACE_MS)
      ? null
      : new Uint8Array(made.value);
  }

  async storedKey(): Promise<StoredKey | null> {
    const [made] = await this.database.query<{ value: Buffer; replaced_at: number | null }>(
      'SELECT value, replaced_at FROM secrets WHERE name = $1',
      [MADE_KEY],
    );
    return made === undefined ? null : { secret: new Uint8Array(made.value), replacedAt: made.replaced_at };
  }

  async knownModels(models: readonly string[]): Promise<readonly string[]> {
    const known = (before: readonly string[] | undefined): readonly string[] | null => knownNames(models, before ?? []);
    const before = await settingOf<string[]>(this.database, 'model-names', ALL);
    if (known(before) === null) return before ?? [];
    return this.database.transaction(async (sql) => {
      await sql.query('SELECT 1 FROM settings_lock FOR UPDATE'); // several processes may be starting concurrently
      const current = await settingOf<string[]>(sql, 'model-names', ALL);
      const next = known(current);
      if (next !== null) await putSetting(sql, 'model-names', ALL, next);
      return next ?? current ?? [];
    });
  }
}
