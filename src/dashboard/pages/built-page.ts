// The built page in memory: dist/web as written by scripts/setup.mjs, each file with its compressed variants. Read once
// at server startup and never modified.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';

export type Coding = 'br' | 'gzip';

export interface PageFile {
  readonly contentType: string;
  readonly plain: Uint8Array;
  /** Compressed variants, each present only if it is smaller than the original. */
  readonly coded: Readonly<Partial<Record<Coding, Uint8Array>>>;
}

export interface BuiltPage {
  readonly index: PageFile;
  /** The HTML page at /docs, which displays the API reference from /openapi.json. */
  readonly apiReference: PageFile;
  /** The assets by file name. Each name contains a hash of the content. */
  readonly assets: ReadonlyMap<string, PageFile>;
}

const CONTENT_TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.json': 'application/json; charset=utf-8',
};
const SUFFIXES: readonly (readonly [Coding, string])[] = [
  ['br', '.br'],
  ['gzip', '.gz'],
];

/** Null if the page has not been built. */
export function readBuiltPage(folder: string): BuiltPage | null {
  const index = join(folder, 'index.html');
  const apiReference = join(folder, 'api-reference.html');
  const assets = join(folder, 'assets');
  if (![index, apiReference, assets].every((path) => existsSync(path))) return null;
  const names = readdirSync(assets).filter((name) => extname(name) in CONTENT_TYPES);
  return {
    index: readPageFile(index),
    apiReference: readPageFile(apiReference),
    assets: new Map(names.map((name) => [name, readPageFile(join(assets, name))])),
  };
}

function readPageFile(path: string): PageFile {
  const coded: Partial<Record<Coding, Uint8Array>> = {};
  for (const [coding, suffix] of SUFFIXES) if (existsSync(path + suffix)) coded[coding] = readFileSync(path + suffix);
  return { contentType: CONTENT_TYPES[extname(path)] as string, plain: readFileSync(path), coded };
}

/** The encoding to use for an Accept-Encoding header. Prefers br to gzip. */
export function codingFor(file: PageFile, acceptEncoding: string): Coding | null {
  const weights = new Map(
    acceptEncoding
      .toLowerCase()
      .split(',')
      .map((part) => {
        const [name = '', ...parameters] = part.split(';').map((piece) => piece.trim());
        const weight = parameters.find((one) => one.startsWith('q='))?.slice(2);
        return [name, weight === undefined ? 1 : Number(weight)] as const;
      }),
  );
  const taken = (coding: Coding): boolean => (weights.get(coding) ?? weights.get('*') ?? 0) > 0;
  return SUFFIXES.map(([coding]) => coding).find((coding) => file.coded[coding] !== undefined && taken(coding)) ?? null;
}
