// Tests pulling from a hub over HTTP: downloads are either complete or discarded, and they are resumable, verified, and
// shared with other users of the cache.

import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { randomFillSync } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import type { Test } from 'tap';
import { HubCache } from '../../src/hub/hub-cache.js';
import { HubClient } from '../../src/hub/hub-client.js';
import type { HubClientOptions } from '../../src/hub/hub-client.js';
import { HubError } from '../../src/hub/hub-error.js';
import { parseModelRef } from '../../src/hub/model-ref.js';
import { cached, pull } from '../../src/hub/pull.js';
import type { Pulled, PullProgress } from '../../src/hub/pull.js';
import { freePort } from '../support/free-port.js';
import { startHub } from '../support/hub-server.js';
import type { HubRepo, TestHub } from '../support/hub-server.js';

const bytes = (length: number): Buffer => randomFillSync(Buffer.alloc(length));
const MEMORY = 1 << 30;

async function withHub(
  t: Test,
  repos: Record<string, HubRepo>,
): Promise<{
  hub: TestHub;
  root: string;
  cache: HubCache;
  get: (ref: string, options?: GetOptions) => Promise<Pulled>;
}> {
  const hub = await startHub(repos);
  const root = mkdtempSync(join(tmpdir(), 'monolith-hub-'));
  t.teardown(async () => {
    await hub.close();
    rmSync(root, { recursive: true, force: true });
  });
  const cache = new HubCache(join(root, 'hub'));
  return {
    hub,
    root,
    cache,
    get: (ref, { signal, onProgress, memory = MEMORY, ...client } = {}) =>
      pull(
        parseModelRef(ref),
        new HubClient({ endpoint: hub.endpoint, token: null, backoffMs: 5, stallMs: 10_000, ...client }),
        cache,
        { memory, signal, ...(onProgress === undefined ? {} : { onProgress }) },
      ),
  };
}
interface GetOptions extends Partial<HubClientOptions> {
  signal?: AbortSignal;
  memory?: number;
  onProgress?: (progress: PullProgress) => void;
}

const failureOf = async (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'none',
    (error: unknown) => (error instanceof HubError ? `${error.failure}: ${error.message}` : String(error)),
  );
const namesIn = (folder: string): string[] => (existsSync(folder) ? readdirSync(folder) : []);

t.test('pulls a quantization and its projector into the cache layout, and downloads nothing twice', async (t) => {
  const weights = bytes(300_000),
    projector = bytes(5_000);
  const { hub, cache, get } = await withHub(t, {
    'own/mod-GGUF': {
      files: {
        'README.md': Buffer.from('# hi'),
        'm-Q8_0.gguf': weights,
        'm-Q4_K_M.gguf': bytes(100_000),
        'mmproj-m-F16.gguf': projector,
        '.gitattributes': Buffer.from('x'),
      },
    },
  });
  const seen: PullProgress[] = [];
  const pulled = await get('own/mod-GGUF', { onProgress: (progress) => seen.push(progress) });
  const commit = hub.commitOf('own/mod-GGUF');
  const snapshot = join(cache.root, 'models--own--mod-GGUF', 'snapshots', commit);
  t.match(pulled, {
    quantization: 'Q8_0',
    path: join(snapshot, 'm-Q8_0.gguf'),
    projector: join(snapshot, 'mmproj-m-F16.gguf'),
    commit,
    bytes: 305_000,
    fetched: 305_000,
  });
  t.ok(readFileSync(pulled.path).equals(weights));
  t.ok(readFileSync(pulled.projector!).equals(projector));
  t.match(readlinkSync(pulled.path), /^\.\.\/\.\.\/blobs\/[0-9a-f]{64}$/);
  t.equal(readFileSync(join(cache.root, 'models--own--mod-GGUF', 'refs', 'main'), 'utf8'), commit);
  t.same(namesIn(snapshot).sort(), ['m-Q8_0.gguf', 'mmproj-m-F16.gguf'], 'no other files are downloaded');
  t.equal(seen.at(-1)?.bytes, 305_000);
  t.equal(seen.at(-1)?.total, 305_000);
  t.ok(
    seen.every((one, at) => at === 0 || one.bytes >= seen[at - 1]!.bytes),
    'progress never decreases',
  );
  const stored = hub.seen.filter(({ origin }) => origin === 'store').length;
  t.equal((await get('own/mod-GGUF:Q8_0')).fetched, 0);
  t.equal(hub.seen.filter(({ origin }) => origin === 'store').length, stored, 'cached files are not downloaded again');
  t.equal(cached(parseModelRef('own/mod-GGUF'), cache, MEMORY)?.path, pulled.path);
  t.equal(cached(parseModelRef('own/mod-GGUF:Q4_K_M'), cache, MEMORY), null);
});

t.test('pulls split files, folders, small files verified by git hash, and listings of several pages', async (t) => {
  const folder = {
    'config.json': Buffer.from('{"a":1}'),
    'tokenizer.json': bytes(2_000),
    'model.safetensors.index.json': Buffer.from('{"weight_map":{"x":"model-00001-of-00001.safetensors"}}'),
    'model-00001-of-00001.safetensors': bytes(9_000),
    'run.py': Buffer.from('import os'),
  };
  const { cache, get } = await withHub(t, {
    'o/split': {
      files: {
        'Q6_K/m-Q6_K-00001-of-00002.gguf': bytes(3_000),
        'Q6_K/m-Q6_K-00002-of-00002.gguf': bytes(2_000),
        'a.txt': bytes(10),
        'b.txt': bytes(10),
      },
    },
    'o/folder': { files: folder },
  });
  const split = await get('o/split');
  t.match(split.path, /\/Q6_K\/m-Q6_K-00001-of-00002\.gguf$/);
  t.ok(existsSync(split.path.replace('00001-of', '00002-of')), 'the other part is in the same folder');
  const pulled = await get('o/folder');
  t.same(namesIn(pulled.path).sort(), [
    'config.json',
    'model-00001-of-00001.safetensors',
    'model.safetensors.index.json',
    'tokenizer.json',
  ]);
  t.ok(readFileSync(join(pulled.path, 'config.json')).equals(folder['config.json']));
  t.equal(cached(parseModelRef('o/folder'), cache, MEMORY)?.path, pulled.path);
  rmSync(join(pulled.path, 'model-00001-of-00001.safetensors'));
  t.equal(cached(parseModelRef('o/folder'), cache, MEMORY), null, 'a folder with a missing shard is not cached');
});

t.test('resumes an interrupted download, even in a later pull', async (t) => {
  const weights = bytes(200_000);
  const { hub, cache, get } = await withHub(t, { 'o/m': { files: { 'm-Q8_0.gguf': weights } } });
  hub.faults = { breakAfter: [50_000, 20_000, 0, 0, 30_000] };
  const told: string[] = [];
  t.ok(readFileSync((await get('o/m', { onRetry: (why) => told.push(why) })).path).equals(weights));
  t.match(told[0], /^m-Q8_0\.gguf was interrupted at \S+ \S+ \(.+\)$/);
  t.ok(hub.seen.filter(({ range }) => range !== null).length >= 4, 'the download is resumed with range requests');
  rmSync(cache.root, { recursive: true });

  hub.faults = { breakAfter: [60_000, 0, 0, 0, 0, 0, 0] };
  t.match(
    await failureOf(get('o/m')),
    /^unreachable: the download of m-Q8_0\.gguf of o\/m failed at \d+ of 200000 bytes, 5 times in a row/,
  );
  const blobs = join(cache.root, 'models--o--m', 'blobs');
  t.match(namesIn(blobs), [/\.monolith\.incomplete$/], 'a partial file does not have the name of a complete one');
  t.equal(cached(parseModelRef('o/m'), cache, MEMORY), null);
  t.notOk(existsSync(join(cache.root, 'models--o--m', 'refs')));
  const kept = statSync(join(blobs, namesIn(blobs)[0]!)).size;
  t.ok(kept > 0);
  hub.faults = {};
  hub.seen.length = 0;
  t.ok(readFileSync((await get('o/m')).path).equals(weights));
  t.same(
    hub.seen.filter(({ origin }) => origin === 'store').map(({ range }) => range),
    [`bytes=${kept}-`],
  );
  t.same(
    namesIn(blobs).filter((name) => name.includes('incomplete')),
    [],
  );
});

t.test(
  'replaces partial files that are too long or wrong, and works with servers without range requests',
  async (t) => {
    const weights = bytes(100_000);
    const { hub, cache, get } = await withHub(t, { 'o/m': { files: { 'm-Q8_0.gguf': weights } } });
    const partial = async (content: Buffer): Promise<void> => {
      rmSync(cache.root, { recursive: true, force: true });
      const [file] = await new HubClient({ endpoint: hub.endpoint, token: null }).files('o/m', hub.commitOf('o/m'));
      mkdirSync(join(cache.root, 'models--o--m', 'blobs'), { recursive: true });
      writeFileSync(cache.partial('o/m', file!.hash), content);
    };
    for (const [what, ignoresRanges, content] of [
      ['the server ignores ranges', true, weights.subarray(0, 5_000)],
      ['the partial file is too long', false, bytes(200_000)],
      ['the partial file has other bytes', false, bytes(5_000)],
      ['the partial file has the full length but wrong bytes', false, bytes(100_000)],
      ['the partial file is complete', false, weights],
    ] as const) {
      await partial(content);
      hub.faults = { ignoresRanges };
      t.ok(readFileSync((await get('o/m')).path).equals(weights), what);
    }
    // A cached file that has its final name but the wrong length is downloaded again.
    const blob = readdirSync(join(cache.root, 'models--o--m', 'blobs'))[0]!;
    truncateSync(join(cache.root, 'models--o--m', 'blobs', blob), 10);
    t.ok(readFileSync((await get('o/m')).path).equals(weights));
  },
);

t.test('never keeps a file with the wrong hash', async (t) => {
  const weights = bytes(100_000);
  const { hub, cache, get } = await withHub(t, { 'o/m': { files: { 'm-Q8_0.gguf': weights } } });
  hub.faults = { wrongBytes: new Map([['m-Q8_0.gguf', 1]]) };
  t.ok(readFileSync((await get('o/m')).path).equals(weights), 'a download with wrong bytes is repeated once');
  rmSync(cache.root, { recursive: true });
  hub.faults = { wrongBytes: new Map([['m-Q8_0.gguf', 2]]) };
  t.match(
    await failureOf(get('o/m')),
    /^wrong_hash: m-Q8_0\.gguf of o\/m does not match its hash after two downloads; the file was discarded$/,
  );
  t.same(namesIn(join(cache.root, 'models--o--m', 'blobs')), []);
});

t.test('concurrent pulls download each file once', async (t) => {
  const { hub, get } = await withHub(t, {
    'o/m': { files: { 'm-Q8_0.gguf': bytes(400_000), 'm-Q4_0.gguf': bytes(100_000) } },
  });
  const all = await Promise.all([get('o/m:Q8_0'), get('o/m:Q8_0'), get('o/m:Q4_0'), get('o/m:Q8_0')]);
  t.equal(new Set(all.map(({ path }) => path)).size, 2);
  t.equal(hub.seen.filter(({ origin }) => origin === 'store').length, 2);
});

t.test('sends the token only to the hub', async (t) => {
  const { hub, get } = await withHub(t, {
    'o/private': { files: { 'm-Q8_0.gguf': bytes(2_000) }, token: 'hf_secret' },
    'o/gated': { files: { 'm-Q8_0.gguf': bytes(2_000) }, gated: true },
  });
  t.match(
    await failureOf(get('o/private')),
    /^not_found: o\/private@main: no such repository on .*, or it is private: a token is required \(hub\.token, or HF_TOKEN\)$/,
  );
  t.match(await failureOf(get('o/private', { token: 'hf_wrong' })), /^not_found: .* the token does not grant access$/);
  hub.seen.length = 0;
  t.equal((await get('o/private', { token: 'hf_secret' })).fetched, 2_000);
  t.ok(
    hub.seen.every(({ origin, authorization }) => (authorization === null) === (origin === 'store')),
    'the file store does not receive the token',
  );
  t.match(await failureOf(get('o/gated', { token: 'hf_secret' })), /^not_allowed: o\/gated is gated: accept its terms/);
  t.match(await failureOf(get('o/nothing')), /^not_found: /);
  t.match(await failureOf(get('o/gated@nowhere')), /^not_found: o\/gated@nowhere: .* has no such revision$/);
});

t.test('retries on hub errors and refuses invalid hub responses', async (t) => {
  const { hub, root, get } = await withHub(t, { 'o/m': { files: { 'm-Q8_0.gguf': bytes(2_000) } } });
  hub.faults = { answers: [{ status: 429, headers: { 'retry-after': '0' } }, { status: 503 }, { status: 500 }] };
  const told: string[] = [];
  t.equal(
    (await get('o/m', { onRetry: (why, waitMs) => told.push(`${why.replace(/^[\d.:]+/, 'hub')}, ${waitMs}`) })).fetched,
    2_000,
    'the request is retried',
  );
  t.same(
    told,
    ['hub returned status 429, 5', 'hub returned status 503, 10', 'hub returned status 500, 20'],
    'each retry is reported with its reason and delay',
  );
  hub.faults = { answers: Array.from({ length: 5 }, () => ({ status: 429, headers: { 'retry-after': '0' } })) };
  t.match(await failureOf(get('o/m')), /^too_many_requests: /);
  hub.faults = { answers: Array.from({ length: 5 }, () => ({ status: 502 })) };
  t.match(await failureOf(get('o/m')), /^bad_answer: o\/m@main: .* returned status 502$/);
  hub.faults = { answers: [{ status: 200 }] };
  t.match(await failureOf(get('o/m')), /^bad_answer: .* returned no commit for o\/m@main$/);
  hub.faults = { answers: Array.from({ length: 20 }, () => ({ status: 302, headers: { location: '/again' } })) };
  t.match(await failureOf(get('o/m')), /^bad_answer: .* redirects too often$/);
  hub.faults = { answers: [{ status: 302, headers: { location: 'file:///etc/passwd' } }] };
  t.match(await failureOf(get('o/m')), /^bad_answer: .* redirects to file:\/\/, which is not followed$/);
  for (const path of [
    '../../evil.gguf',
    '/etc/evil.gguf',
    'a\u001b[2J.gguf',
    'a\u009b2J.gguf',
    'a\u202egg.fugg.gguf',
  ]) {
    hub.faults = { extraPaths: [path] };
    const said = await failureOf(get('o/m'));
    t.match(said, /^bad_answer: o\/m lists a file with an invalid name: /);
    t.notMatch(said, /[\u001b\u009b\u202e]/);
  }
  hub.faults = {};
  t.same(namesIn(root), ['hub'], 'nothing is written outside the cache');
  t.match(await failureOf(get('o/m', { offline: true })), /^offline: /);
  t.match(
    await failureOf(get('o/m', { endpoint: 'http://127.0.0.1:9' })),
    /^unreachable: http:\/\/127\.0\.0\.1:9 cannot be reached: bad port$/,
  );
});

t.test(
  'tries a host that has never responded once if its name is unknown, and twice if it refuses the connection',
  async (t) => {
    const { hub, get } = await withHub(t, { 'o/m': { files: { 'm-Q8_0.gguf': bytes(2_000) } } });
    const retries: string[] = [];
    const onRetry = (why: string): number => retries.push(why);
    t.match(
      await failureOf(get('o/m', { endpoint: 'http://nowhere.invalid', onRetry })),
      /^unreachable: http:\/\/nowhere\.invalid cannot be reached: the host name (is unknown|cannot be looked up)/,
    );
    t.same(retries, []);
    const closed = `http://127.0.0.1:${await freePort()}`;
    t.match(
      await failureOf(get('o/m', { endpoint: closed, onRetry })),
      /cannot be reached: the connection was refused \(ECONNREFUSED\)$/,
    );
    t.equal(retries.splice(0).length, 1);
    // A redirect's host is also treated as a host that has never responded, and the error names this host.
    hub.faults = { answers: [{ status: 302, headers: { location: 'http://nowhere.invalid/x' } }] };
    t.match(await failureOf(get('o/m', { onRetry })), /^unreachable: http:\/\/nowhere\.invalid cannot be reached/);
    t.same(retries, []);
  },
);

t.test('refuses invalid file lists and commits', async (t) => {
  const { get } = await withHub(t, {});
  const sha = '0'.repeat(40);
  const said = async (commit: unknown, tree: unknown): Promise<string> => {
    const server = createServer((request, response) => {
      response.end(JSON.stringify(request.url?.includes('/tree/') ? tree : commit));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.teardown(() => server.close());
    return failureOf(get('o/m', { endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }));
  };
  for (const commit of [null, 5, 'x', [], {}])
    t.match(await said(commit, []), /^bad_answer: .* returned no commit for o\/m@main$/);
  for (const tree of [null, 5, 'x', {}]) t.match(await said({ sha }, tree), /^bad_answer: .* lists no files of o\/m$/);
  t.match(await said({ sha }, [null, 5, 'x', [], {}]), /^no_such_weights: /);
});

t.test('gives up on a hub that sends varying parts of a file but never the rest', async (t) => {
  const { hub, get } = await withHub(t, { 'o/m': { files: { 'm-Q8_0.gguf': bytes(20_000) } } });
  hub.faults = { ignoresRanges: true, breakAfter: Array.from({ length: 40 }, (_, i) => (i % 2 === 0 ? 2_000 : 1_500)) };
  t.match(await failureOf(get('o/m')), /^unreachable: .* failed at .* 5 times in a row/);
});

t.test('supports mirrors that list only names, and hubs below a path', async (t) => {
  const weights = bytes(3_000);
  const { hub, cache, get } = await withHub(t, {
    'o/m': { files: { 'm-Q8_0.gguf': weights, 'a.txt': Buffer.from('small') } },
  });
  for (const noTree of ['with_blobs', 'names_alone'] as const) {
    rmSync(cache.root, { recursive: true, force: true });
    hub.faults = { noTree };
    t.ok(readFileSync((await get('o/m')).path).equals(weights), noTree);
  }
  hub.faults = {};
  rmSync(cache.root, { recursive: true, force: true });
  t.ok(readFileSync((await get('o/m', { endpoint: `${hub.endpoint}/mirror/` })).path).equals(weights));
});

/**
 * A mirror that lists names without sizes and serves no file contents. `onHead` returns the status of each HEAD
 * request; `peak` is the maximum number of concurrent requests.
 */
async function namesOnly(
  t: Test,
  names: readonly string[],
  onHead: (at: number) => number = () => 200,
): Promise<{ endpoint: string; seen: { heads: number; peak: number } }> {
  const seen = { heads: 0, peak: 0, running: 0 };
  const server = createServer((request, response) => {
    if (request.method === 'HEAD') {
      const at = ++seen.heads;
      seen.peak = Math.max(seen.peak, ++seen.running);
      setTimeout(() => {
        seen.running--;
        response
          .writeHead(onHead(at), {
            etag: `"${'a'.repeat(64)}"`,
            'content-length': '10',
            'x-error-code': 'EntryNotFound',
          })
          .end();
      }, 2);
      return;
    }
    if (request.url?.includes('/tree/') === true) return void response.writeHead(404).end('{}');
    response.end(JSON.stringify({ sha: '0'.repeat(40), siblings: names.map((rfilename) => ({ rfilename })) }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return { endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen };
}

t.test('looks up sizes that a listing lacks, a few at a time and only for files that can be served', async (t) => {
  const { get } = await withHub(t, {});
  const weights = Array.from({ length: 200 }, (_, i) => `part-${i}-Q8_0.gguf`);
  const mirror = await namesOnly(t, [...weights, ...Array.from({ length: 500 }, (_, i) => `picture-${i}.png`)]);
  t.match(await failureOf(get('o/m:none', { endpoint: mirror.endpoint })), /^no_such_weights: o\/m has no "none"/);
  t.equal(mirror.seen.heads, weights.length);
  t.ok(mirror.seen.peak <= 8, `${mirror.seen.peak} requests ran concurrently`);

  const failing = await namesOnly(t, weights, (at) => (at === 20 ? 404 : 200));
  t.match(
    await failureOf(get('o/m', { endpoint: failing.endpoint })),
    /^not_found: part-\d+-Q8_0.gguf of o\/m: .* has no such file/,
  );
  t.ok(failing.seen.heads < 40, `${failing.seen.heads} requests although the 20th failed`);
});

t.test('refuses invalid file names, and links a file with the longest valid name', async (t) => {
  const { get } = await withHub(t, {});
  const tooLong = await namesOnly(t, [`${'x'.repeat(251)}.gguf`]);
  t.match(
    await failureOf(get('o/m', { endpoint: tooLong.endpoint })),
    /^bad_answer: o\/m lists a file with an invalid name: "xxx/,
  );
  t.equal(tooLong.seen.heads, 0);
  const name = `${'y'.repeat(245)}-Q8_0.gguf`;
  const { get: pullFrom } = await withHub(t, { 'o/m': { files: { [name]: bytes(2_000) } } });
  t.equal(statSync((await pullFrom('o/m')).path).size, 2_000);
});

t.test('a file and a folder with the same name cause an error that names the path', async (t) => {
  const { get } = await withHub(t, {
    'o/m': { files: { 'm-Q8_0.gguf': bytes(2_000), 'm-Q8_0.gguf/mmproj-F16.gguf': bytes(2_000) } },
  });
  t.match(await failureOf(get('o/m:m-Q8_0.gguf')), /^cache: .*m-Q8_0\.gguf.* cannot be written: /);
});

t.test('gives up on a stalled download, and keeps the partial file of a cancelled one', async (t) => {
  const { hub, cache, get } = await withHub(t, { 'o/m': { files: { 'm-Q8_0.gguf': bytes(500_000) } } });
  hub.faults = { stallAfter: 0 };
  t.match(await failureOf(get('o/m', { stallMs: 50 })), /^unreachable: .*no data for/);
  hub.faults = { stallAfter: 100_000 };
  const stop = new AbortController();
  const stopped = failureOf(
    get('o/m', {
      signal: stop.signal,
      onProgress: ({ bytes: there }) => {
        if (there > 0) stop.abort();
      },
    }),
  );
  t.match(await stopped, /^cancelled: the download was stopped; the next one resumes it/);
  const blobs = join(cache.root, 'models--o--m', 'blobs');
  t.ok(statSync(join(blobs, namesIn(blobs)[0]!)).size > 0);
});

t.test('a pull follows a moved branch, and an older commit is found offline', async (t) => {
  const { hub, cache, get } = await withHub(t, { 'o/m': { files: { 'm-Q8_0.gguf': bytes(2_000) } } });
  const before = await get('o/m');
  hub.repos.get('o/m')!.files = { 'm-Q8_0.gguf': bytes(2_500), 'm-Q4_0.gguf': bytes(1_000) };
  const after = await get('o/m:Q4_0');
  t.not(after.commit, before.commit);
  t.equal(cached(parseModelRef('o/m:Q4_0'), cache, MEMORY)?.path, after.path);
  t.equal(
    cached(parseModelRef('o/m:Q8_0'), cache, MEMORY)?.path,
    before.path,
    'the older commit has the weights that were not pulled from the new one',
  );
  t.equal(cached(parseModelRef(`o/m@${before.commit}`), cache, MEMORY)?.path, before.path);
  t.equal(cached(parseModelRef('o/m@other'), cache, MEMORY), null);
});

t.test('checks free disk space before downloading', async (t) => {
  const { hub, get } = await withHub(t, { 'o/m': { files: { 'm-Q8_0.gguf': bytes(2_000) } } });
  const original = hub.repos.get('o/m')!.files['m-Q8_0.gguf']!;
  Object.defineProperty(original, 'length', { value: 2 ** 52 }); // the size reported by the file list
  t.match(await failureOf(get('o/m:Q8_0')), /^no_space: cannot download 4096 TiB of o\/m: .* free/);
  t.equal(hub.seen.filter(({ origin }) => origin === 'store').length, 0);
});
