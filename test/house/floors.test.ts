// Checks imports and includes against the layers in docs/internals/architecture.md. An import from a higher layer or an
// import cycle fails. A new module must be added to the lists below, which go from the lowest layer up.

import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/engine/load-addon.js';

/** src/: a folder, or a single file without its extension. */
const TYPESCRIPT = [
  'version', 'ids', 'errors', 'config', 'shared', 'wire', 'loadtest', 'tuning', 'identity', 'telemetry', 'engine', 'hub', 'storage', 'mail',
  'admission', 'http', 'sealing', 'oidc', 'generation', 'accounts', 'usage', 'requests', 'saved', 'protocol', 'dashboard', 'operator', 'openapi', 'service',
  'threads', 'server', 'cli', 'main',
];
/** Folders of native/. */
const NATIVE = ['base', 'formats/json', 'formats/gguf', 'text', 'formats/hf', 'backend', 'model', 'vision', 'engine', 'addon'];

type Links = Map<string, string[]>;

const filesUnder = (folder: string, wanted: RegExp): string[] => readdirSync(join(packageRoot, folder), { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && wanted.test(entry.name)).map((entry) => relative(packageRoot, join(entry.parentPath, entry.name)));

function typescriptLinks(folder = 'src'): Links {
  const files = new Set(filesUnder(folder, /\.tsx?$/).filter((file) => !file.startsWith('src/dashboard/web/')));
  return new Map([...files].map((file) => {
    const text = readFileSync(join(packageRoot, file), 'utf8');
    const named = [...text.matchAll(/(?:from|import\()\s*'(\.[^']+)\.js'/g)].map(([, path]) => `${normalize(join(dirname(file), path ?? ''))}.ts`);
    return [file, named.filter((path) => files.has(path))];
  }));
}

function nativeLinks(): Links {
  const files = new Set(filesUnder('native', /\.(h|cc|cu)$/).filter((file) => !file.startsWith('native/cmake/')));   // part of the build system
  return new Map([...files].map((file) => {
    const text = readFileSync(join(packageRoot, file), 'utf8');
    const named = [...text.matchAll(/^\s*#\s*include "([^"]+)"/gm)].map(([, path]) => join('native', path ?? ''));
    return [file, named.filter((path) => files.has(path))];
  }));
}

const typescriptRoom = (file: string): string => file.split('/')[1]?.replace(/\.ts$/, '') ?? '';
const nativeRoom = (file: string): string => NATIVE.find((room) => file.startsWith(`native/${room}/`)) ?? file;

function uphill(links: Links, rooms: readonly string[], roomOf: (file: string) => string): string[] {
  const floor = new Map(rooms.map((room, at) => [room, at]));
  const wrong: string[] = [];
  for (const [file, targets] of links) {
    const own = floor.get(roomOf(file));
    if (own === undefined) wrong.push(`${file} is in no module`);
    else for (const target of targets) if ((floor.get(roomOf(target)) ?? Infinity) > own) wrong.push(`${file} -> ${target}`);
  }
  return wrong.sort();
}

/** A file and everything it imports, directly and indirectly. */
function reachedFrom(file: string, links: Links): string[] {
  const reached = new Set([file]);
  for (const each of reached) for (const target of links.get(each) ?? []) reached.add(target);
  return [...reached].sort();
}

/** Import cycles (strongly connected components by Tarjan's algorithm). */
function circles(links: Links): string[][] {
  const index = new Map<string, number>(), low = new Map<string, number>();
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

t.test('TypeScript modules import only from layers below them, without cycles', async (t) => {
  const links = typescriptLinks();
  t.ok(links.size > 200, `${links.size} files`);
  t.same(uphill(links, TYPESCRIPT, typescriptRoom), []);
  t.same(circles(links), []);
});

t.test('only src/generation imports the internals of its local provider', async (t) => {
  const local = 'src/generation/local/';
  const known = [...typescriptLinks()].filter(([file, targets]) => !file.startsWith('src/generation/') && targets.some((target) => target.startsWith(local)));
  t.same(known.map(([file]) => file), []);
});

/** Files that may use tables and open transactions: the database code, and implementations of ports on it. */
const keepsTables = (file: string): boolean => file.startsWith('src/storage/') || /\/(lmdb(-[^/]*\.ts$|\/)|postgres\/)/.test(file);

t.test('only port implementations use tables and transactions', async (t) => {
  const links = typescriptLinks();
  t.ok([...links.keys()].some((file) => keepsTables(file) && !file.startsWith('src/storage/')), 'the rule matches files outside src/storage');
  const seen = [...links].filter(([file, targets]) => targets.includes('src/storage/store.ts') || /\.(transaction|table)[(<]/.test(readFileSync(join(packageRoot, file), 'utf8'))).map(([file]) => file);
  t.same(seen.filter((file) => !keepsTables(file)), []);
});

t.test('the benchmarks have no import cycles', async (t) => {
  t.same(circles(typescriptLinks('bench')), []);
});

t.test('C++ modules include only from layers below them', async (t) => {
  const links = nativeLinks();
  t.ok(links.size > 200, `${links.size} files`);
  t.same(uphill(links, NATIVE, nativeRoom), []);
});

t.test('the engine\'s interface includes no models, kernels or file formats', async (t) => {
  const reached = reachedFrom('native/engine/engine.h', nativeLinks());
  t.ok(reached.includes('native/engine/request.h'), 'includes are followed');
  t.same(reached.filter((file) => !/^native\/(base|engine|text)\//.test(file)), []);
});

t.test('the checks report upward imports, unknown modules and cycles', async (t) => {
  const links: Links = new Map([['src/ids.ts', ['src/http/app.ts']], ['src/http/app.ts', ['src/http/body.ts']], ['src/http/body.ts', ['src/http/app.ts', 'src/ids.ts']], ['src/nowhere.ts', []]]);
  t.same(uphill(links, TYPESCRIPT, typescriptRoom), ['src/ids.ts -> src/http/app.ts', 'src/nowhere.ts is in no module']);
  t.same(circles(links), [['src/http/app.ts', 'src/http/body.ts', 'src/ids.ts']]);
  t.same(reachedFrom('src/ids.ts', links), ['src/http/app.ts', 'src/http/body.ts', 'src/ids.ts']);
});
