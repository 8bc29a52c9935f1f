// One file of a repository into the cache: from where an earlier attempt came to, checked by its hash, and only then under
// its name. Several that want the same file, in this process or others, take turns: whoever comes later finds it there.

import { createHash } from 'node:crypto';
import type { Hash } from 'node:crypto';
import {
  closeSync,
  createReadStream,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  write,
} from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { showBytes } from '../config/kinds.js';
import { loadAddon } from '../engine/load-addon.js';
import { cancelled, MAX_ATTEMPTS } from './hub-client.js';
import type { HubClient } from './hub-client.js';
import { syncFolder } from './hub-cache.js';
import type { HubCache } from './hub-cache.js';
import { HubError, printable } from './hub-error.js';
import type { HubFile } from './hub-files.js';

const LOOK_MS = 200;
const writeAll = promisify(write);

export interface BlobJob {
  readonly client: HubClient;
  readonly cache: HubCache;
  readonly repo: string;
  readonly commit: string;
  readonly signal?: AbortSignal | undefined;
  /** Bytes there are of the file by now; less than before where it had to begin anew. */
  progress(bytes: number): void;
  /** Somebody else is downloading it. */
  waiting(): void;
}

/** Resolves when the blob is there in whole. Throws HubError. */
export async function fetchBlob(file: HubFile, job: BlobJob): Promise<void> {
  const { cache, repo } = job;
  if (cache.has(repo, file)) return job.progress(file.bytes);
  const unlock = await locked(cache.lock(repo, file.hash), job);
  try {
    if (cache.has(repo, file)) return job.progress(file.bytes);
    mkdirSync(dirname(cache.blob(repo, file.hash)), { recursive: true });
    await download(file, job);
    job.progress(file.bytes);
  } catch (error) {
    if (error instanceof HubError) throw error;
    if (job.signal?.aborted === true) throw cancelled(error);
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOSPC')
      throw new HubError(
        'no_space',
        `no room is left for ${file.path} of ${repo} in ${cache.root}; what there is of it is kept`,
        error,
      );
    throw new HubError(
      'cache',
      `${file.path} of ${repo} cannot be written to ${cache.root}: ${(error as Error).message}`,
      error,
    );
  } finally {
    unlock();
  }
}

async function locked(path: string, { waiting, signal }: BlobJob): Promise<() => void> {
  let descriptor: number;
  try {
    mkdirSync(dirname(path), { recursive: true });
    descriptor = openSync(path, 'a');
  } catch (error) {
    throw new HubError('cache', `${path} cannot be written: ${(error as Error).message}`, error);
  }
  const unlock = (): void => closeSync(descriptor);
  try {
    for (let told = false; !loadAddon().lockFile(descriptor); told = true) {
      if (!told) waiting();
      await sleep(LOOK_MS, undefined, signal === undefined ? {} : { signal });
    }
    return unlock;
  } catch (error) {
    unlock();
    if (signal?.aborted === true) throw cancelled(error);
    throw new HubError('cache', `${path} cannot be locked: ${(error as Error).message}`, error);
  }
}

/** What is on disk of a file so far, and its hash. */
class Partial {
  bytes = 0;
  #hash: Hash;

  constructor(
    readonly descriptor: number,
    private readonly file: HubFile,
  ) {
    this.#hash = begun(file);
  }

  async read(path: string): Promise<void> {
    for await (const chunk of createReadStream(path) as AsyncIterable<Uint8Array>) {
      this.#hash.update(chunk);
      this.bytes += chunk.length;
    }
  }

  async add(chunk: Uint8Array): Promise<void> {
    for (let at = 0; at < chunk.length; )
      at += (await writeAll(this.descriptor, chunk, at, chunk.length - at, this.bytes + at)).bytesWritten;
    this.#hash.update(chunk);
    this.bytes += chunk.length;
  }

  restart(): void {
    ftruncateSync(this.descriptor, 0);
    this.bytes = 0;
    this.#hash = begun(this.file);
  }

  isRight(): boolean {
    return this.bytes === this.file.bytes && this.#hash.digest('hex') === this.file.hash;
  }
}

/** Large files are named by their SHA-256, small ones as git names its blobs. */
function begun({ hash, bytes }: HubFile): Hash {
  return hash.length === 64 ? createHash('sha256') : createHash('sha1').update(`blob ${bytes}\0`);
}

async function download(file: HubFile, job: BlobJob): Promise<void> {
  const { cache, repo } = job;
  const path = cache.partial(repo, file.hash);
  if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) > file.bytes) rmSync(path);
  for (let attempt = 1; attempt <= 2; attempt++) {
    const descriptor = openSync(path, 'a+'); // appends would ignore positions, but there is one writer, who writes at the end
    try {
      const partial = new Partial(descriptor, file);
      await partial.read(path);
      job.progress(partial.bytes);
      await receive(file, partial, job);
      if (partial.isRight()) {
        fsyncSync(descriptor);
        renameSync(path, cache.blob(repo, file.hash));
        syncFolder(dirname(path));
        return;
      }
    } finally {
      closeSync(descriptor);
    }
    rmSync(path, { force: true }); // nothing of it can be trusted
  }
  throw new HubError(
    'wrong_hash',
    `${file.path} of ${repo} came with other bytes than its hash says, twice; it is not kept`,
  );
}

/** Until all bytes are there. A connection that breaks is taken up again where it broke, as long as each comes further than any before. */
async function receive(file: HubFile, partial: Partial, job: BlobJob): Promise<void> {
  const { client, repo, commit, signal } = job;
  let furthest = partial.bytes;
  for (let attempt = 1; partial.bytes < file.bytes; ) {
    let failure: unknown;
    const { response, stall } = await client.open(repo, commit, file.path, partial.bytes, signal);
    try {
      if (response.status === 416 || (partial.bytes > 0 && !goesOn(response, partial.bytes))) {
        partial.restart();
        if (response.status === 416 || response.status === 206)
          throw new Error('the server sends another part than was asked for');
      }
      if (response.body === null) throw new Error('the answer has no body');
      for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
        stall.tick();
        if (partial.bytes + chunk.length > file.bytes)
          throw new HubError('wrong_hash', `${file.path} of ${repo} is longer than the hub says`);
        await partial.add(chunk);
        job.progress(partial.bytes);
      }
    } catch (error) {
      if (signal?.aborted === true) throw cancelled(error);
      if (error instanceof HubError || isOfDisk(error)) throw error;
      failure = stall.signal.aborted ? stall.signal.reason : error;
    } finally {
      stall.stop();
      await response.body?.cancel().catch(() => undefined);
    }
    if (partial.bytes >= file.bytes) return;
    attempt = partial.bytes > furthest ? 1 : attempt + 1;
    furthest = Math.max(furthest, partial.bytes);
    const why = failure instanceof Error ? failure.message : 'the connection ends early';
    if (attempt > MAX_ATTEMPTS) {
      throw new HubError(
        'unreachable',
        `${file.path} of ${repo} broke off at ${partial.bytes} of ${file.bytes} bytes, ${MAX_ATTEMPTS} times in a row (${why}); the next pull goes on from there`,
        failure,
      );
    }
    await client.pause(attempt, `${file.path} broke off at ${showBytes(partial.bytes)} (${printable(why)})`, signal);
  }
}

/** Whether an answer has the rest from `from` on, and not all of it, or another part. */
function goesOn(response: Response, from: number): boolean {
  return (
    response.status === 206 &&
    Number(/^bytes (\d+)-/.exec(response.headers.get('content-range') ?? '')?.[1] ?? NaN) === from
  );
}

const isOfDisk = (error: unknown): boolean =>
  ['ENOSPC', 'EIO', 'EDQUOT', 'EROFS', 'EFBIG'].includes((error as NodeJS.ErrnoException).code ?? '');
