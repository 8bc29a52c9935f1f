// Checks the layers described in docs/internals/architecture.md. A file that imports or includes from a higher layer
// fails this test, and so do files that import each other in a cycle. A new directory must be added to the list of
// layers.

import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/engine/load-addon.js';

/** Directories of src/, or files without their extension, lowest layer first. */
const TYPESCRIPT = [
  'config',
  'shared',
  'bench',
  'telemetry',
  'engine',
  'hub',
  'storage',
  'admission',
  'http',
  'generation',
  'accounts',
  'usage',
  'alerts',
  'webhooks',
  'protocol',
  'dashboard',
  'storage/lmdb',
  'storage/postgres',
  'server',
  'cli',
  'main',
];
/** Directories of native/, lowest layer first. */
const NATIVE = [
  'base',
  'text',
  'formats/gguf',
  'formats/hf',
  'backend',
  'model',
  'encoder',
  'vision',
  'engine',
  'addon',
];

type Links = Map<string, string[]>;

const filesUnder = (folder: string, wanted: RegExp): string[] =>
  readdirSync(join(packageRoot, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && wanted.test(entry.name))
    .map((entry) => relative(packageRoot, join(entry.parentPath, entry.name)));

function typescriptLinks(folder = 'src'): Links {
  const files = new Set(filesUnder(folder, /\.tsx?$/).filter((file) => !file.startsWith('src/dashboard/web/')));
  return new Map(
    [...files].map((file) => {
      const text = readFileSync(join(packageRoot, file), 'utf8');
      const named = [...text.matchAll(/(?:from|import\()\s*'(\.[^']+)\.js'/g)].map(
        ([, path]) => `${normalize(join(dirname(file), path ?? ''))}.ts`,
      );
      return [file, named.filter((path) => files.has(path))];
    }),
  );
}

function nativeLinks(): Links {
  // native/cmake is used only by the build.
  const files = new Set(filesUnder('native', /\.(h|cc|cu)$/).filter((file) => !file.startsWith('native/cmake/')));
  return new Map(
    [...files].map((file) => {
      const text = readFileSync(join(packageRoot, file), 'utf8');
      const named = [...text.matchAll(/^\s*#\s*include "([^"]+)"/gm)].map(([, path]) => join('native', path ?? ''));
      return [file, named.filter((path) => files.has(path))];
    }),
  );
}

/** The database implementations are separate layers, above the domains whose ports they implement. */
const typescriptLayer = (file: string): string =>
  /^src\/(storage\/(?:lmdb|postgres))\//.exec(file)?.[1] ?? file.split('/')[1]?.replace(/\.ts$/, '') ?? '';
const nativeLayer = (file: string): string => NATIVE.find((layer) => file.startsWith(`native/${layer}/`)) ?? file;

function upward(links: Links, layers: readonly string[], layerOf: (file: string) => string): string[] {
  const rank = new Map(layers.map((layer, at) => [layer, at]));
  const wrong: string[] = [];
  for (const [file, targets] of links) {
    const own = rank.get(layerOf(file));
    if (own === undefined) wrong.push(`${file} is in no layer`);
    else
      for (const target of targets)
        if ((rank.get(layerOf(target)) ?? Infinity) > own) wrong.push(`${file} -> ${target}`);
  }
  return wrong.sort();
}

/** Returns everything that a file imports, directly or indirectly. */
function reachedFrom(file: string, links: Links): string[] {
  const reached = new Set([file]);
  for (const each of reached) for (const target of links.get(each) ?? []) reached.add(target);
  return [...reached].sort();
}

/** Groups of files that import each other (Tarjan's algorithm). */
function cycles(links: Links): string[][] {
  const index = new Map<string, number>(),
    low = new Map<string, number>();
  const stack: string[] = [];
  const found: string[][] = [];
  const visit = (file: string): void => {
    index.set(file, index.size);
    low.set(file, index.get(file) as number);
    stack.push(file);
    for (const target of links.get(file) ?? []) {
      if (!index.has(target)) visit(target);
      if (stack.includes(target)) low.set(file, Math.min(low.get(file) as number, low.get(target) as number));
    }
    if (low.get(file) !== index.get(file)) return;
    const group = stack.splice(stack.indexOf(file));
    if (group.length > 1) found.push(group.sort());
  };
  for (const file of links.keys()) if (!index.has(file)) visit(file);
  return found;
}

/** Merges the files of each top folder of native/ (or src/) into one node. */
function folderLinks(links: Links): Links {
  const topFolder = (file: string): string => file.split('/').slice(0, 2).join('/');
  const merged: Links = new Map();
  for (const [file, targets] of links) {
    const own = topFolder(file);
    const others = targets.map(topFolder).filter((folder) => folder !== own);
    merged.set(own, [...new Set([...(merged.get(own) ?? []), ...others])]);
  }
  return merged;
}

t.test('TypeScript: no import from a higher layer, no import cycles', async (t) => {
  const links = typescriptLinks();
  t.ok(links.size > 200, `${links.size} files`);
  t.same(upward(links, TYPESCRIPT, typescriptLayer), []);
  t.same(cycles(links), []);
});

t.test('nothing outside src/generation imports the internals of the local provider', async (t) => {
  const local = 'src/generation/local/';
  const known = [...typescriptLinks()].filter(
    ([file, targets]) => !file.startsWith('src/generation/') && targets.some((target) => target.startsWith(local)),
  );
  t.same(
    known.map(([file]) => file),
    [],
  );
});

/** Files that may use tables and transactions. */
const isStorage = (file: string): boolean => /^src\/(storage\/|server\/(lmdb|postgres)-)/.test(file);

t.test('only src/storage and the modules of src/server that open it use tables and transactions', async (t) => {
  const links = typescriptLinks();
  const seen = [...links]
    .filter(
      ([file, targets]) =>
        targets.includes('src/storage/store.ts') ||
        /\.(transaction|table)[(<]/.test(readFileSync(join(packageRoot, file), 'utf8')),
    )
    .map(([file]) => file);
  t.same(
    seen.filter((file) => !isStorage(file)),
    [],
  );
});

t.test('benchmarks: no import cycles', async (t) => {
  t.same(cycles(typescriptLinks('bench')), []);
});

t.test('C++: no include from a higher layer', async (t) => {
  const links = nativeLinks();
  t.ok(links.size > 200, `${links.size} files`);
  t.same(upward(links, NATIVE, nativeLayer), []);
});

t.test('C++: no include cycles between the top folders', async (t) => {
  const links = folderLinks(nativeLinks());
  t.ok(links.get('native/formats')?.includes('native/text'), 'includes are followed');
  t.same(cycles(links), []);
});

t.test('engine.h does not include models, kernels or file formats', async (t) => {
  const reached = reachedFrom('native/engine/engine.h', nativeLinks());
  t.ok(reached.includes('native/engine/request.h'), 'includes are followed');
  t.same(
    reached.filter((file) => !/^native\/(base|engine|text)\//.test(file)),
    [],
  );
});

/**
 * Whether the scheduler and the KV cache must not depend on this file: text, grammars, sampling, requests and the loop.
 */
const aboveScheduling = (file: string): boolean =>
  /^native\/(text|formats\/hf)\//.test(file) ||
  (file.startsWith('native/engine/') && !/^native\/engine\/(kv\/|schedule\/|inputs\.h$)/.test(file));

/**
 * Returns the files of engine/schedule and engine/kv that directly or indirectly include a file for which
 * aboveScheduling() is true.
 */
const schedulingViolations = (links: Links): string[] =>
  [...links.keys()]
    .filter((file) => /^native\/engine\/(schedule|kv)\//.test(file))
    .flatMap((file) =>
      reachedFrom(file, links)
        .filter(aboveScheduling)
        .map((target) => `${file} -> ${target}`),
    );

t.test('engine/schedule and engine/kv do not include text, grammars, sampling or the loop', async (t) => {
  const links = nativeLinks();
  const reached = reachedFrom('native/engine/schedule/scheduler.h', links);
  t.ok(reached.includes('native/engine/kv/prefix_cache.h'), 'includes are followed');
  t.same(schedulingViolations(links), []);
});

t.test('no module uses the recursive mkdir of Node, which never returns for some directories', async (t) => {
  t.same(
    filesUnder('src', /\.ts$/).filter((file) =>
      /mkdir(?:Sync)?\([^;]*recursive: true/.test(readFileSync(join(packageRoot, file), 'utf8')),
    ),
    [],
    'use makeFolder() of src/shared/make-folder.ts',
  );
});

t.test('the checks detect violations', async (t) => {
  const links: Links = new Map([
    ['src/shared/ids.ts', ['src/http/app.ts']],
    ['src/http/app.ts', ['src/http/body.ts']],
    ['src/http/body.ts', ['src/http/app.ts', 'src/shared/ids.ts']],
    ['src/nowhere.ts', []],
  ]);
  t.same(upward(links, TYPESCRIPT, typescriptLayer), [
    'src/nowhere.ts is in no layer',
    'src/shared/ids.ts -> src/http/app.ts',
  ]);
  t.same(cycles(links), [['src/http/app.ts', 'src/http/body.ts', 'src/shared/ids.ts']]);
  t.same(
    schedulingViolations(
      new Map([
        ['native/engine/schedule/scheduler.h', ['native/engine/kv/kv_state.h', 'native/engine/inputs.h']],
        ['native/engine/kv/kv_state.h', ['native/engine/request.h']],
        ['native/engine/request.h', ['native/text/tokenizer/tokenizer.h']],
      ]),
    ),
    [
      'native/engine/schedule/scheduler.h -> native/engine/request.h',
      'native/engine/schedule/scheduler.h -> native/text/tokenizer/tokenizer.h',
      'native/engine/kv/kv_state.h -> native/engine/request.h',
      'native/engine/kv/kv_state.h -> native/text/tokenizer/tokenizer.h',
    ],
  );
  t.same(reachedFrom('src/shared/ids.ts', links), ['src/http/app.ts', 'src/http/body.ts', 'src/shared/ids.ts']);
});
