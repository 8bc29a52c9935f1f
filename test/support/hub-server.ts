// A local server that implements the Hugging Face hub's HTTP API and fails on demand. It covers file lists and commits,
// redirects to a second origin with ranges, hashes, tokens, 401, 403, 404, 429, broken connections and wrong bytes.

import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface HubRepo {
  /** Path → content. Files of 1,000 bytes or more count as "large files" and have a SHA-256. */
  files: Record<string, Buffer>;
  /** The token that requests must carry; if not set, none is needed. */
  token?: string;
  gated?: boolean;
}

export interface Faults {
  /** Breaks the connection after this many bytes of a large file: one entry per connection, in order. */
  breakAfter?: number[];
  /** Responses to the first requests, regardless of their path, before normal handling starts. */
  answers?: { status: number; headers?: Record<string, string> }[];
  /** How many times each path is served with bytes that do not match its hash. */
  wrongBytes?: Map<string, number>;
  /** Answers a range request with the whole file. */
  ignoresRanges?: boolean;
  /** If set, file lists use `siblings` instead of the tree, with or without hashes. */
  noTree?: 'with_blobs' | 'names_alone';
  /** Stalls after this many bytes of a large file. */
  stallAfter?: number;
  /** Additional paths in file lists that do not exist as files. */
  extraPaths?: string[];
  /** Redirect target for large files, instead of the second origin. */
  location?: string;
}

export interface TestHub {
  readonly endpoint: string;
  readonly repos: Map<string, HubRepo>;
  faults: Faults;
  /** Method, path and relevant headers of every request. */
  readonly seen: {
    method: string;
    url: string;
    origin: 'hub' | 'store';
    range: string | null;
    authorization: string | null;
  }[];
  commitOf(repo: string): string;
  close(): Promise<void>;
}

const LARGE = 1_000;
const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');
const gitHash = (bytes: Buffer): string =>
  createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex');

export async function startHub(repos: Record<string, HubRepo>): Promise<TestHub> {
  const all = new Map(Object.entries(repos));
  const commitOf = (repo: string): string =>
    createHash('sha1')
      .update(
        Object.entries(all.get(repo)?.files ?? {})
          .map(([path, bytes]) => `${path} ${sha256(bytes)}`)
          .join('\n'),
      )
      .digest('hex');
  const hub: TestHub = { endpoint: '', repos: all, faults: {}, seen: [], commitOf, close: () => Promise.resolve() };
  let storeUrl = '';

  const note = (request: IncomingMessage, origin: 'hub' | 'store'): void => {
    hub.seen.push({
      method: request.method ?? '',
      url: request.url ?? '',
      origin,
      range: request.headers.range ?? null,
      authorization: request.headers.authorization ?? null,
    });
  };
  const refuse = (response: ServerResponse, status: number, code: string): void => {
    response.writeHead(status, { 'x-error-code': code, 'x-error-message': 'as the test wants it' }).end('{}');
  };

  const api = (request: IncomingMessage, response: ServerResponse): void => {
    note(request, 'hub');
    const fault = hub.faults.answers?.shift();
    if (fault !== undefined) {
      response.writeHead(fault.status, fault.headers).end('{}');
      return;
    }
    const url = new URL(request.url ?? '/', hub.endpoint);
    const path = url.pathname.replace(/^\/mirror\//, '/');
    if (path === '/api/models') {
      const words = (url.searchParams.get('search') ?? '').toLowerCase();
      response.setHeader('content-type', 'application/json');
      response.end(
        JSON.stringify(
          [...all].flatMap(([id, { gated = false }], at) =>
            id.toLowerCase().includes(words)
              ? [{ id, downloads: 1_000 - at, likes: at, lastModified: '2026-11-02T08:00:00.000Z', gated }]
              : [],
          ),
        ),
      );
      return;
    }
    const [, name = '', kind = '', revision = '', rest = ''] =
      /^\/(?:api\/models\/)?([^/]+\/[^/]+)\/(revision|tree|resolve)\/([^/]+)\/?(.*)$/.exec(path) ?? [];
    const repo = all.get(name);
    if (repo === undefined) return refuse(response, 401, 'RepoNotFound');
    if (repo.gated === true && kind !== 'revision') return refuse(response, 403, 'GatedRepo');
    if (repo.token !== undefined && request.headers.authorization !== `Bearer ${repo.token}`)
      return refuse(response, 401, 'RepoNotFound');
    const commit = commitOf(name);
    if (revision !== 'main' && revision !== commit) return refuse(response, 404, 'RevisionNotFound');
    const entries = Object.entries(repo.files);
    if (kind === 'revision') {
      const blobs = hub.faults.noTree !== 'names_alone' && url.searchParams.get('blobs') === 'true';
      response.setHeader('content-type', 'application/json');
      response.end(
        JSON.stringify({
          sha: commit,
          siblings: entries.map(([rfilename, bytes]) => ({
            rfilename,
            ...(blobs
              ? {
                  size: bytes.length,
                  blobId: gitHash(bytes),
                  ...(bytes.length >= LARGE ? { lfs: { sha256: sha256(bytes), size: bytes.length } } : {}),
                }
              : {}),
          })),
        }),
      );
      return;
    }
    if (kind === 'tree') {
      if (hub.faults.noTree !== undefined) return refuse(response, 404, 'EntryNotFound');
      const page = Number(url.searchParams.get('cursor') ?? 0); // three entries per page
      const list = [...entries, ...(hub.faults.extraPaths ?? []).map((extra) => [extra, Buffer.from('x')] as const)];
      if ((page + 1) * 3 < list.length)
        response.setHeader('link', `<${url.origin}${url.pathname}?recursive=true&cursor=${page + 1}>; rel="next"`);
      response.end(
        JSON.stringify([
          { type: 'directory', path: 'sub', oid: 'd'.repeat(40) },
          ...list.slice(page * 3, page * 3 + 3).map(([at, bytes]) =>
            bytes.length >= LARGE
              ? {
                  type: 'file',
                  path: at,
                  size: bytes.length,
                  oid: gitHash(Buffer.from('pointer')),
                  lfs: { oid: sha256(bytes), size: bytes.length, pointerSize: 134 },
                }
              : { type: 'file', path: at, size: bytes.length, oid: gitHash(bytes) },
          ),
        ]),
      );
      return;
    }
    const file = decodeURIComponent(rest);
    const bytes = repo.files[file];
    if (bytes === undefined) return refuse(response, 404, 'EntryNotFound');
    response.setHeader('x-repo-commit', commit);
    if (bytes.length < LARGE) {
      response
        .writeHead(200, { etag: `"${gitHash(bytes)}"`, 'content-length': bytes.length })
        .end(request.method === 'HEAD' ? undefined : bytes);
      return;
    }
    response
      .writeHead(302, {
        location: hub.faults.location ?? `${storeUrl}/${sha256(bytes)}?name=${encodeURIComponent(`${name}/${file}`)}`,
        'x-linked-etag': `"${sha256(bytes)}"`,
        'x-linked-size': bytes.length,
        etag: '"of the pointer"',
      })
      .end();
  };

  const store = (request: IncomingMessage, response: ServerResponse): void => {
    note(request, 'store');
    const [, hash = ''] = /^\/([0-9a-f]{64})/.exec(request.url ?? '') ?? [];
    const found = [...all.values()]
      .flatMap(({ files }) => Object.entries(files))
      .find(([, bytes]) => bytes.length >= LARGE && sha256(bytes) === hash);
    if (found === undefined) {
      response.writeHead(404).end();
      return;
    }
    const [path] = found;
    let [, bytes] = found;
    const wrong = hub.faults.wrongBytes?.get(path) ?? 0;
    if (wrong > 0) {
      hub.faults.wrongBytes?.set(path, wrong - 1);
      bytes = Buffer.from(bytes);
      bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] as number) ^ 1;
    }
    const from =
      hub.faults.ignoresRanges === true ? 0 : Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0);
    if (from >= bytes.length) {
      response.writeHead(416, { 'content-range': `bytes */${bytes.length}` }).end();
      return;
    }
    const part = bytes.subarray(from);
    response.writeHead(from > 0 ? 206 : 200, {
      'content-length': part.length,
      ...(from > 0 ? { 'content-range': `bytes ${from}-${bytes.length - 1}/${bytes.length}` } : {}),
      etag: `"${hash}"`,
    });
    if (request.method === 'HEAD') {
      response.end();
      return;
    }
    if (hub.faults.stallAfter !== undefined) {
      response.write(part.subarray(0, hub.faults.stallAfter));
      return;
    }
    const cut = hub.faults.breakAfter?.shift();
    if (cut === undefined) response.end(part);
    else response.write(part.subarray(0, cut), () => setTimeout(() => response.destroy(), 20));
  };

  const servers: Server[] = [];
  const listen = async (handler: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> => {
    const server = createServer(handler);
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  };
  const hubUrl = await listen(api);
  storeUrl = await listen(store);
  return Object.assign(hub, {
    endpoint: hubUrl,
    close: async () => {
      await Promise.all(
        servers.map(
          (server) =>
            new Promise<void>((resolve) => {
              server.close(() => resolve());
              server.closeAllConnections();
            }),
        ),
      );
    },
  });
}
