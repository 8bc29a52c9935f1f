// Tests operators' settings on a real database, and the cache that an HTTP worker keeps in front of a slow database.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { LmdbAuditLog } from '../../src/storage/lmdb/accounts/audit-log.js';
import { readCatalog, type CatalogModel } from '../../src/engine/catalog.js';
import { LmdbEngineSettings } from '../../src/storage/lmdb/dashboard/engine-settings.js';
import { LmdbModelSettings } from '../../src/storage/lmdb/dashboard/model-settings.js';
import type { ModelSettingsStore } from '../../src/dashboard/admin/model-settings-store.js';
import { ModelSettings } from '../../src/dashboard/admin/model-settings.js';
import { LocalBus } from '../../src/shared/bus.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import type { Store } from '../../src/storage/store.js';
import { eventually } from '../e2e/monolith.js';
import { LmdbServedModels } from '../../src/storage/lmdb/dashboard/served-models.js';
import { LmdbAdapters } from '../../src/storage/lmdb/dashboard/adapters.js';
import {
  adapterStoreTests,
  engineSettingsStoreTests,
  modelSettingsStoreTests,
  note,
  servedModelStoreTests,
} from './settings-stores.js';

async function storeFor(t: Test): Promise<{ store: Store; audit: LmdbAuditLog }> {
  const path = mkdtempSync(join(tmpdir(), 'monolith-settings-'));
  const store = await openStore(path);
  t.teardown(async () => {
    await store.close();
    rmSync(path, { recursive: true, force: true });
  });
  return { store, audit: new LmdbAuditLog(store) };
}

modelSettingsStoreTests(async (t) => {
  const { store, audit } = await storeFor(t);
  return { settings: new LmdbModelSettings(store, audit), audit };
});

servedModelStoreTests(async (t) => {
  const { store, audit } = await storeFor(t);
  return { served: new LmdbServedModels(store, audit), settings: new LmdbModelSettings(store, audit), audit };
});
adapterStoreTests(async (t) => {
  const { store, audit } = await storeFor(t);
  return { adapters: new LmdbAdapters(store, audit), settings: new LmdbModelSettings(store, audit), audit };
});
engineSettingsStoreTests(async (t) => {
  const { store, audit } = await storeFor(t);
  return { settings: new LmdbEngineSettings(store, audit), audit };
});

t.test(
  "the cache reflects its own thread's changes immediately and others' within a second, and keeps the last known settings while the store fails",
  async (t) => {
    const { store, audit } = await storeFor(t);
    const tables = new LmdbModelSettings(store, audit);
    let gate: Promise<void> | null = null; // only the next read is delayed
    let broken = false;
    const errors: unknown[] = [];
    const slow: ModelSettingsStore = {
      async all() {
        if (broken) throw new Error('no answer');
        const read = await tables.all();
        const held = gate;
        gate = null;
        await held;
        return read;
      },
      change: (...change) => tables.change(...change),
    };
    const [model] = readCatalog() as [CatalogModel];
    const settings = await ModelSettings.open(slow, new LocalBus(), (error) => errors.push(error), 20);
    t.teardown(() => settings.close());
    let told = 0;
    settings.onChanged(() => {
      told++;
    });

    await settings.change(model, { successor: 'one' }, () => undefined, note('changed'));
    t.equal(settings.declared(model).successor, 'one');
    t.equal(told, 1);
    await t.rejects(
      settings.change(
        model,
        { successor: 'none' },
        () => {
          throw new Error('refused');
        },
        note('refused'),
      ),
      /refused/,
    );
    t.equal(told, 1);

    await tables.change(model.id, () => ({ successor: 'two' }), note('elsewhere'));
    t.ok(await eventually(() => settings.declared(model).successor === 'two'));

    // A read that started before a change ends after the read that followed the change.
    let open: () => void = () => undefined;
    gate = new Promise((resolve) => {
      open = resolve;
    });
    t.ok(await eventually(() => gate === null), 'the periodic refresh started a read');
    await settings.change(model, { successor: 'three' }, () => undefined, note('changed'));
    open();
    await new Promise(setImmediate);
    t.equal(settings.declared(model).successor, 'three');

    broken = true;
    t.ok(await eventually(() => errors.length > 0));
    await settings.change(model, { successor: 'four' }, () => undefined, note('changed'));
    t.equal(settings.declared(model).successor, 'three');
    t.equal(errors.length, 1, 'the error is reported once');
    broken = false;
    t.ok(await eventually(() => settings.declared(model).successor === 'four'));
  },
);
