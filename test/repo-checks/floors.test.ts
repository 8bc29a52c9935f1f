// The rooms of docs/internals/architecture.md from the ground up: what imports or includes a room above its own, or files that
// import each other in a circle, fail here. Adding a room means giving it a floor.

import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/engine/load-addon.js';

/** src/: a folder, or a file on its own, without its ending. */
const TYPESCRIPT = [
  'version',
  'ids',
  'errors',
  'config',
  'shared',
  'wire',
  'loadtest',
  'tuning',
  'identity',
  'telemetry',
  'engine',
  'hub',
  'storage',
  'mail',
  'admission',
  'http',
  'sealing',
  'oidc',
  'generation',
  'accounts',
  'usage',
  'requests',
  'saved',
  'protocol',
  'dashboard',
  'operator',
  'openapi',
  'service',
  'threads',
  'server',
  'cli',
  'main',
];
/** native/: folders. */
const NATIVE = [
  'base',
  'formats/json',
  'formats/gguf',
  'text',
  'formats/hf',
  'backend',
  'model',
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
  const files = new Set(filesUnder('native', /\.(h|cc|cu)$/).filter((file) => !file.startsWith('native/cmake/'))); // of the build
  return new Map(
    [...files].map((file) => {
      const text = readFileSync(join(packageRoot, file), 'utf8');
      const named = [...text.matchAll(/^\s*#\s*include "([^"]+)"/gm)].map(([, path]) => join('native', path ?? ''));
      return [file, named.filter((path) => files.has(path))];
    }),
  );
}

const typescriptRoom = (file: string): string => file.split('/')[1]?.replace(/\.ts$/, '') ?? '';
const nativeRoom = (file: string): string => NATIVE.find((room) => file.startsWith(`native/${room}/`)) ?? file;

function uphill(links: Links, rooms: readonly string[], roomOf: (file: string) => string): string[] {
  const floor = new Map(rooms.map((room, at) => [room, at]));
  const wrong: string[] = [];
  for (const [file, targets] of links) {
    const own = floor.get(roomOf(file));
    if (own === undefined) wrong.push(`${file} is in no room`);
    else
      for (const target of targets)
        if ((floor.get(roomOf(target)) ?? Infinity) > own) wrong.push(`${file} -> ${target}`);
  }
  return wrong.sort();
}

/** All that a file imports, and what that imports. */
function reachedFrom(file: string, links: Links): string[] {
  const reached = new Set([file]);
  for (const each of reached) for (const target of links.get(each) ?? []) reached.add(target);
  return [...reached].sort();
}

/** Groups of files that reach each other (Tarjan's algorithm). */
function circles(links: Links): string[][] {
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

t.test('TypeScript: no room imports from a room above it, no files import each other in a circle', async (t) => {
  const links = typescriptLinks();
  t.ok(links.size > 200, `${links.size} files`);
  t.same(uphill(links, TYPESCRIPT, typescriptRoom), []);
  t.same(circles(links), []);
});

t.test('only the room of generation knows what its local provider is made of', async (t) => {
  const local = 'src/generation/local/';
  const known = [...typescriptLinks()].filter(
    ([file, targets]) => !file.startsWith('src/generation/') && targets.some((target) => target.startsWith(local)),
  );
  t.same(
    known.map(([file]) => file),
    [],
  );
});

/** Files that may see tables and open transactions: those of the database, and what keeps a port's promises with it. */
const keepsTables = (file: string): boolean =>
  file.startsWith('src/storage/') || /\/(lmdb(-[^/]*\.ts$|\/)|postgres\/)/.test(file);

t.test("only what keeps a port's promises sees tables and transactions", async (t) => {
  const links = typescriptLinks();
  t.ok(
    [...links.keys()].some((file) => keepsTables(file) && !file.startsWith('src/storage/')),
    'there are such files',
  );
  const seen = [...links]
    .filter(
      ([file, targets]) =>
        targets.includes('src/storage/store.ts') ||
        /\.(transaction|table)[(<]/.test(readFileSync(join(packageRoot, file), 'utf8')),
    )
    .map(([file]) => file);
  t.same(
    seen.filter((file) => !keepsTables(file)),
    [],
  );
});

t.test('the benchmarks: no files import each other in a circle', async (t) => {
  t.same(circles(typescriptLinks('bench')), []);
});

t.test('C++: no room includes from a room above it', async (t) => {
  const links = nativeLinks();
  t.ok(links.size > 200, `${links.size} files`);
  t.same(uphill(links, NATIVE, nativeRoom), []);
});

t.test("the engine's face is free of models, kernels and files", async (t) => {
  const reached = reachedFrom('native/engine/engine.h', nativeLinks());
  t.ok(reached.includes('native/engine/request.h'), 'includes are followed');
  t.same(
    reached.filter((file) => !/^native\/(base|engine|text)\//.test(file)),
    [],
  );
});

t.test('what the checks find', async (t) => {
  const links: Links = new Map([
    ['src/ids.ts', ['src/http/app.ts']],
    ['src/http/app.ts', ['src/http/body.ts']],
    ['src/http/body.ts', ['src/http/app.ts', 'src/ids.ts']],
    ['src/nowhere.ts', []],
  ]);
  t.same(uphill(links, TYPESCRIPT, typescriptRoom), ['src/ids.ts -> src/http/app.ts', 'src/nowhere.ts is in no room']);
  t.same(circles(links), [['src/http/app.ts', 'src/http/body.ts', 'src/ids.ts']]);
  t.same(reachedFrom('src/ids.ts', links), ['src/http/app.ts', 'src/http/body.ts', 'src/ids.ts']);
});
