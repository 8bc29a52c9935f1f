// Tests how an adapter name selects a model, and the errors for adapters in the configuration.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { adapterTarget, configuredAdapters } from '../../src/engine/adapters.js';
import { modelOfFile, type CatalogModel } from '../../src/engine/catalog.js';
import { starterPath } from '../addon/starter.js';

const model = (id: string, more: Partial<CatalogModel> = {}): CatalogModel => ({
  ...modelOfFile(id, starterPath),
  ...more,
});
const upstream = { servers: [] } as unknown as NonNullable<CatalogModel['upstream']>;

t.test('MODEL:NAME is split so that MODEL is the longest matching model name', (t) => {
  const models = [model('a'), model('a:b'), model('far', { upstream })];
  const of = (asked: string): unknown => {
    const target = adapterTarget(asked, models);
    return 'problem' in target ? target.problem : [target.base.id, target.name];
  };
  t.same(of('a:x'), ['a', 'x']);
  t.same(of('a:b:x'), ['a:b', 'x']);
  t.same(of('far:x'), '"far" is an upstream model');
  t.same(of('c:x'), '"c" is not one of a, a:b');
  t.same(of('x'), 'several models are served; write MODEL:x, where MODEL is one of a, a:b');
  t.match(adapterTarget('x', [model('far', { upstream }), model('a')]), { base: { id: 'a' }, name: 'x' });
  t.match(adapterTarget('x', [model('far', { upstream })]), { problem: /upstream models have no adapters/ });
  t.end();
});

t.test('an adapter has the properties of its model, except its own settings', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'monolith-adapters-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'x.gguf');
  writeFileSync(path, '');
  const base = model('a', { context_window: 100, draft: 'b', lifecycle: 'deprecated' });
  const of = (
    name: string,
    overrides: Parameters<typeof configuredAdapters>[2] = {},
    models = [base],
  ): readonly CatalogModel[] => configuredAdapters(models, [{ name, path, scale: 2 }], overrides, '--adapter');
  const [adapter] = of('x', { 'a:x': { display_name: 'X', sampling: { temperature: 0.1 } } });
  t.match(adapter, {
    id: 'a:x',
    file: starterPath,
    adapter: { base: 'a', name: 'x', path, scale: 2, setting: '--adapter x' },
    display_name: 'X',
    context_window: 100,
    draft: undefined,
    lifecycle: 'active',
    sampling: { temperature: 0.1, top_p: base.sampling.top_p },
  });
  t.same(
    of('x', { a: { adapters: { y: { path, scale: 0.5 } } } }).map(({ id, adapter: of }) => [id, of?.scale]),
    [
      ['a:x', 2],
      ['a:y', 0.5],
    ],
  );
  t.throws(() => of('x', { a: { adapters: { x: { path } } } }), {
    message: 'models "a": adapters.x: the name "a:x" is already taken',
  });
  t.throws(() => of('x', {}, [base, model('a:x')]), {
    message: '--adapter x: several models are served; write MODEL:x, where MODEL is one of a, a:x',
  });
  t.throws(() => of('a:x', {}, [base, model('a:x')]), { message: '--adapter a:x: the name "a:x" is already taken' });
  t.throws(() => of('x', { 'a:x': { context_window: 5 } }), {
    message: 'models "a:x": context_window: an adapter has the context_window of its model, "a"',
  });
  t.throws(() => of('x', { far: { adapters: { y: { path } } } }, [base, model('far', { upstream })]), {
    message: 'models "far": adapters.y: an upstream model has no adapters',
  });
  t.throws(() => configuredAdapters([base], [{ name: 'x', path: folder, scale: 1 }], {}, '--adapter'), {
    message: `--adapter x: ${folder} is neither a file nor a folder with an adapter_config.json`,
  });
  t.throws(() => of('x'.repeat(64), {}, [model('m'.repeat(80))]), { message: /^adapter name .* must be 1 to 128/ });
  t.end();
});
