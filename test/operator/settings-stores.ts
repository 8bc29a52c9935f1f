// Tests that every store of operators' settings must pass, regardless of its backend.
import t, { type Test } from 'tap';
import type { Actor, AuditLog, AuditNote } from '../../src/accounts/audit.js';
import type { EngineSettingsStore } from '../../src/dashboard/admin/engine-settings-store.js';
import type { ModelSettingsStore } from '../../src/dashboard/admin/model-settings-store.js';
import type { AdapterRow, AdapterStore } from '../../src/dashboard/admin/adapter-store.js';
import type { ServedModelRow, ServedModelStore } from '../../src/dashboard/admin/served-model-store.js';

const ACTOR: Actor = { type: 'operator_api', id: null, email: null, ip: null };
export const note = (action: string): AuditNote => ({ actor: ACTOR, action, detail: { a: 1 } });
const actions = async (audit: AuditLog): Promise<string[]> =>
  (await audit.list(null, 100, null)).data.map(({ action, target }) => `${action} ${target}`);

/**
 * `open` returns a new, empty store and the audit log to which the store writes. The store is removed when the test
 * ends.
 */
export function modelSettingsStoreTests(
  open: (t: Test) => Promise<{ settings: ModelSettingsStore; audit: AuditLog }>,
): void {
  t.test('changes of model settings are applied one after the other, each together with its audit entry', async (t) => {
    const { settings, audit } = await open(t);
    t.equal((await settings.all()).size, 0);
    await Promise.all(
      Array.from({ length: 20 }, (_, at) =>
        settings.change(
          'hal-1.0',
          (before) => ({ ...before, successor: `${before.successor ?? ''}${at % 10}` }),
          note('changed'),
        ),
      ),
    );
    await settings.change('tycho-1.0', () => ({ unloaded: true, retiresAt: null }), note('drained'));
    await t.rejects(
      settings.change(
        'tycho-1.0',
        () => {
          throw new Error('refused');
        },
        note('refused'),
      ),
      /refused/,
    );
    const all = await settings.all();
    t.same([...all.keys()].sort(), ['hal-1.0', 'tycho-1.0']);
    t.equal(all.get('hal-1.0')?.successor?.length, 20, 'no change is lost');
    t.same(all.get('tycho-1.0'), { unloaded: true, retiresAt: null });
    t.same((await actions(audit)).sort(), [...Array<string>(20).fill('changed hal-1.0'), 'drained tycho-1.0']);
  });
}

export function engineSettingsStoreTests(
  open: (t: Test) => Promise<{ settings: EngineSettingsStore; audit: AuditLog }>,
): void {
  t.test('in a change of engine settings, null removes a setting, and a missing setting does not change', async (t) => {
    const { settings, audit } = await open(t);
    t.same(await settings.get('hal-1.0'), {});
    t.same(await settings.change('hal-1.0', { step_ms: 5, queue_max: 7 }, note('changed')), {
      step_ms: 5,
      queue_max: 7,
    });
    t.same(
      await settings.change('hal-1.0', { step_ms: null, queue_max: undefined, max_sequences: 3 }, note('changed')),
      { queue_max: 7, max_sequences: 3 },
    );
    t.same(await settings.change('tycho-1.0', { step_ms: 0 }, null), { step_ms: 0 });
    t.same(await settings.get('hal-1.0'), { queue_max: 7, max_sequences: 3 });
    t.same(
      [...(await settings.all())],
      [
        ['hal-1.0', { queue_max: 7, max_sequences: 3 }],
        ['tycho-1.0', { step_ms: 0 }],
      ],
    );
    t.same(await actions(audit), ['changed hal-1.0', 'changed hal-1.0'], 'the last change added no entry');
  });
}

export function adapterStoreTests(
  open: (t: Test) => Promise<{ adapters: AdapterStore; settings: ModelSettingsStore; audit: AuditLog }>,
): void {
  t.test('an adapter is added once, and removing it also removes the settings of its name', async (t) => {
    const { adapters, settings, audit } = await open(t);
    const row: AdapterRow = {
      base: 'base',
      name: 'sql',
      path: '/adapters/sql.gguf',
      scale: 0.5,
      addedAt: '2026-01-01T00:00:00.000Z',
    };
    const fresh =
      (id: string) =>
      (there: ReadonlyMap<string, AdapterRow>): void => {
        if (there.has(id)) throw new Error(`${id} is there`);
      };
    const both = await Promise.allSettled([
      adapters.add('base:sql', row, fresh('base:sql'), note('loaded')),
      adapters.add('base:sql', row, fresh('base:sql'), note('loaded')),
    ]);
    t.same(both.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
    const second = { ...row, base: 'a', scale: 1 };
    await adapters.add('a:sql', second, fresh('a:sql'), note('loaded'));
    t.same(
      [...(await adapters.all())],
      [
        ['a:sql', second],
        ['base:sql', row],
      ],
    );
    await settings.change('base:sql', () => ({ unloaded: true }), note('drained'));
    t.same(
      [await adapters.remove('base:sql', note('unloaded')), await adapters.remove('base:sql', note('unloaded'))],
      [true, false],
    );
    t.same([[...(await adapters.all()).keys()], [...(await settings.all()).keys()]], [['a:sql'], []]);
    t.same((await actions(audit)).sort(), ['drained base:sql', 'loaded a:sql', 'loaded base:sql', 'unloaded base:sql']);
  });
}

export function servedModelStoreTests(
  open: (t: Test) => Promise<{ served: ServedModelStore; settings: ModelSettingsStore; audit: AuditLog }>,
): void {
  t.test('a served model is declared once, and removing it also removes its model settings', async (t) => {
    const { served, settings, audit } = await open(t);
    const row: ServedModelRow = {
      source: 'owner/repo:Q4_K_M',
      path: '/models/a.gguf',
      displayName: 'A',
      idleMinutes: null,
      addedAt: '2026-01-01T00:00:00.000Z',
    };
    const fresh =
      (name: string) =>
      (there: ReadonlyMap<string, ServedModelRow>): void => {
        if (there.has(name)) throw new Error(`${name} is there`);
      };
    const both = await Promise.allSettled([
      served.add('b', row, fresh('b'), note('added')),
      served.add('b', row, fresh('b'), note('added')),
    ]);
    t.same(
      both.map(({ status }) => status).sort(),
      ['fulfilled', 'rejected'],
      'if the same name is declared twice concurrently, only one declaration succeeds',
    );
    await served.add('a', { ...row, idleMinutes: 5 }, fresh('a'), note('added'));
    t.same(
      [...(await served.all())],
      [
        ['a', { ...row, idleMinutes: 5 }],
        ['b', row],
      ],
      'the models are sorted by name',
    );
    await settings.change('b', () => ({ unloaded: true }), note('drained'));
    t.same([await served.remove('b', note('removed')), await served.remove('b', note('removed'))], [true, false]);
    t.same([[...(await served.all()).keys()], [...(await settings.all()).keys()]], [['a'], []]);
    t.same((await actions(audit)).sort(), ['added a', 'added b', 'drained b', 'removed b']);
  });
}
