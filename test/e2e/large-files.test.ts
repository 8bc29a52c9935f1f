// Tests that the server never holds a whole large file in memory, and that an upload interrupted by kill -9 is erased
// later.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import t from 'tap';
import { UNFINISHED_S } from '../../src/storage/file-store.js';
import { LmdbFileContents } from '../../src/storage/lmdb/files/contents.js';
import { LmdbFileStore } from '../../src/storage/lmdb/files/file-store.js';
import { startScripted } from '../support/script-model.js';
import { eventually, type Monolith } from './monolith.js';
import { dataFolder, inside } from './stored-server.js';

t.setTimeout(300_000); // the machine may be busy

const MIB = 1024 ** 2;
const SIZE = 240 * MIB;
const data = dataFolder();
t.teardown(() => data.remove());
const start = (): Promise<Monolith> =>
  startScripted({
    models: ['hal-1.0'],
    env: { MONOLITH_DATA_DIR: data.path, MONOLITH_HTTP_THREADS: '1', MONOLITH_FILES_MAX_BYTES: String(SIZE) },
  });

const HEAD =
  '--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n' +
  '--b\r\nContent-Disposition: form-data; name="file"; filename="large.bin"\r\n\r\n';
const TAIL = '\r\n--b--\r\n';
const block = Buffer.alloc(64 * 1024, 'monolith files ');

function* form(bytes: number): Generator<Buffer> {
  yield Buffer.from(HEAD);
  for (let at = 0; at < bytes; at += block.length) yield block.subarray(0, Math.min(block.length, bytes - at));
  yield Buffer.from(TAIL);
}

/** Returns the anonymous memory of a process in bytes, without memory-mapped files such as the database. */
const memoryOf = (pid: number): number =>
  Number(/RssAnon:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024;

const headers = (server: Monolith): Record<string, string> => ({
  authorization: `Bearer ${server.key}`,
  'content-type': 'multipart/form-data; boundary=b',
  'content-length': String(HEAD.length + SIZE + TAIL.length),
});

async function upload(server: Monolith): Promise<{ id: string; bytes: number }> {
  const sent = request(`${server.url}/v1/files`, { method: 'POST', headers: headers(server) });
  const answer = new Promise<string>((resolve, reject) => {
    sent.on('error', reject).on('response', (response) => {
      const pieces: Buffer[] = [];
      response
        .on('data', (piece: Buffer) => pieces.push(piece))
        .on('end', () => resolve(String(Buffer.concat(pieces))));
    });
  });
  await pipeline(Readable.from(form(SIZE)), sent);
  return JSON.parse(await answer) as { id: string; bytes: number };
}

t.test('uploads and downloads 240 MiB without holding the whole file in memory', async (t) => {
  const server = await start();
  t.teardown(() => server.stop());
  const before = memoryOf(server.process.pid!);
  let most = before;
  const sampling = setInterval(() => (most = Math.max(most, memoryOf(server.process.pid!))), 20);
  const { id, bytes } = await upload(server);
  t.equal(bytes, SIZE);
  const uploaded = most;
  const response = await fetch(`${server.url}/v1/files/${id}/content`, {
    headers: { authorization: `Bearer ${server.key}` },
  });
  const hash = createHash('sha256');
  for await (const piece of response.body!) hash.update(piece as Uint8Array);
  clearInterval(sampling);
  const expected = createHash('sha256');
  for (let at = 0; at < SIZE; at += block.length) expected.update(block);
  t.equal(hash.digest('hex'), expected.digest('hex'));
  t.comment(`memory grew by ${grown(uploaded)} and ${grown(most)} MiB`);
  t.ok(most - before < SIZE, 'no file is in memory as a whole');
  function grown(to: number): number {
    return Math.round((to - before) / MIB);
  }
});

t.test('a sweep erases an upload that was interrupted by kill -9', async (t) => {
  const server = await start();
  const sent = request(`${server.url}/v1/files`, { method: 'POST', headers: headers(server) });
  sent.on('error', () => undefined);
  sent.write(HEAD);
  for (let at = 0; at < 5 * MIB; at += block.length) sent.write(block);
  const contents = (now: number) => async (): Promise<number> =>
    inside(data.path, async (store) => {
      const stored = new LmdbFileContents(
        store,
        { max_bytes: SIZE, organization_bytes: SIZE, total_bytes: SIZE },
        () => now,
      );
      await new LmdbFileStore(stored).sweep();
      return [...store.table('file-contents').keys()].length;
    });
  const now = Date.now() / 1000;
  t.ok(await eventually(async () => (await contents(now)()) === 2, 60_000), 'the file of the first test and this one');
  const ended = once(server.process, 'exit');
  server.process.kill('SIGKILL');
  await ended;
  t.equal(await contents(now)(), 2);
  t.equal(await contents(now + UNFINISHED_S + 60)(), 1);
});
