// Settings that operators and owners change at run time, one document each, in the `settings` table. Functions that
// write must be called within a transaction that excludes other writers; see src/storage/postgres/accounts/work.ts.

import type { Queryable } from './database.js';

/**
 * 'model': an operator's settings for a model; 'served-model': a model served in addition to the configured ones;
 * 'prices', 'model-names', 'clock': a single document named 'all'.
 */
export type SettingKind =
  | 'model'
  | 'engine'
  | 'served-model'
  | 'adapter'
  | 'prices'
  | 'budget'
  | 'model-names'
  | 'clock';

export async function settingOf<V>(sql: Queryable, kind: SettingKind, name: string): Promise<V | undefined> {
  return (await sql.query<{ value: V }>('SELECT value FROM settings WHERE kind = $1 AND name = $2', [kind, name]))[0]
    ?.value;
}

/** Ordered by name. */
export async function settingsOfKind<V>(sql: Queryable, kind: SettingKind): Promise<Map<string, V>> {
  return new Map(
    (
      await sql.query<{ name: string; value: V }>('SELECT name, value FROM settings WHERE kind = $1 ORDER BY name', [
        kind,
      ])
    ).map(({ name, value }) => [name, value]),
  );
}

export async function putSetting(sql: Queryable, kind: SettingKind, name: string, value: unknown): Promise<void> {
  await sql.query(
    'INSERT INTO settings (kind, name, value) VALUES ($1, $2, $3) ON CONFLICT (kind, name) DO UPDATE SET value = excluded.value',
    [kind, name, JSON.stringify(value)],
  );
}

/** Resolves to whether the setting existed. */
export async function removeSetting(sql: Queryable, kind: SettingKind, name: string): Promise<boolean> {
  return (await sql.execute('DELETE FROM settings WHERE kind = $1 AND name = $2', [kind, name])) > 0;
}
