// Downloads one file of a repository into the cache. Resumes an earlier attempt, verifies the hash, and only then
// renames the file to its final name. Concurrent downloads of the same file, in this process or in others, run one
// after another; later ones find the file in the cache.

import { createHash } from 'node:crypto';
import type { Hash } from 'node:crypto';
import {
  closeSync,
  createReadStream,
  fsyncSync,
  ftruncateSync,
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
import { makeFolder } from '../shared/make-folder.js';

const LOOK_MS = 200;
const writeAll = promisify(write);

export interface BlobJob {
  readonly client: HubClient;
  readonly cache: HubCache;
  readonly repo: string;
  readonly commit: string;
  readonly signal?: AbortSignal | undefined;
  /** Number of the file's bytes that are on disk. Decreases if the download has to restart. */
  progress(bytes: number): void;
  /** Called while another process or request is downloading the file. */
  waiting(): void;
}

/** Resolves when the complete blob is in the cache. Throws HubError. */
export async function fetchBlob(file: HubFile, job: BlobJob): Promise<void> {
  const { cache, repo } = job;
  if (cache.has(repo, file)) return job.progress(file.bytes);
  const unlock = await locked(cache.lock(repo, file.hash), job);
  try {
    if (cache.has(repo, file)) return job.progress(file.bytes);
    makeFolder(dirname(cache.blob(repo, file.hash)));
    await download(file, job);
    job.progress(file.bytes);
  } catch (error) {
    if (error instanceof HubError) throw error;
    if (job.signal?.aborted === true) throw cancelled(error);
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOSPC')
      throw new HubError(
        'no_space',
        `no space left for ${file.path} of ${repo} in ${cache.root}; the part downloaded so far is kept`,
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
    makeFolder(dirname(path));
    descriptor = openSync(path, 'a');
  } catch (error) {
    throw new HubError('cache', `${path} cannot be written: ${(error as Error).message}`, error);
  }
  const unlock = (): void => closeSync(descriptor);
  try {
    for (let reported = false; !loadAddon().lockFile(descriptor); reported = true) {
      if (!reported) waiting();
      await sleep(LOOK_MS, undefined, signal === undefined ? {} : { signal });
    }
    return unlock;
  } catch (error) {
    unlock();
    if (signal?.aborted === true) throw cancelled(error);
    throw new HubError('cache', `${path} cannot be locked: ${(error as Error).message}`, error);
  }
}

/** The part of a file that is on disk, and its hash. */
class Partial {
  bytes = 0;
  #hash: Hash;

  constructor(
    readonly descriptor: number,
    private readonly file: HubFile,
  ) {
    this.#hash = resumedHash(file);
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
    this.#hash = resumedHash(this.file);
  }

  isRight(): boolean {
    return this.bytes === this.file.bytes && this.#hash.digest('hex') === this.file.hash;
  }
}

/** Large files are named by their SHA-256, small ones by their git blob hash. */
function resumedHash({ hash, bytes }: HubFile): Hash {
  return hash.length === 64 ? createHash('sha256') : createHash('sha1').update(`blob ${bytes}\0`);
}

async function download(file: HubFile, job: BlobJob): Promise<void> {
  const { cache, repo } = job;
  const path = cache.partial(repo, file.hash);
  if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) > file.bytes) rmSync(path);
  for (let attempt = 1; attempt <= 2; attempt++) {
    // Append mode ignores write positions, which is fine because the only writer always writes at the end.
    const descriptor = openSync(path, 'a+');
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
    rmSync(path, { force: true }); // the content cannot be trusted
  }
  throw new HubError(
    'wrong_hash',
    `${file.path} of ${repo} does not match its hash after two downloads; the file was discarded`,
  );
}

/**
 * Receives the rest of the file. After a broken connection, resumes the download as long as each attempt makes more
 * progress than all previous ones.
 */
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
          throw new Error('the server sent a different range than requested');
      }
      if (response.body === null) throw new Error('the response has no body');
      for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
        stall.tick();
        if (partial.bytes + chunk.length > file.bytes)
          throw new HubError('wrong_hash', `${file.path} of ${repo} is longer than the hub reports`);
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
    const why = failure instanceof Error ? failure.message : 'the connection closed early';
    if (attempt > MAX_ATTEMPTS) {
      throw new HubError(
        'unreachable',
        `the download of ${file.path} of ${repo} failed at ${partial.bytes} of ${file.bytes} bytes, ${MAX_ATTEMPTS} times in a row (${why}); the next pull resumes there`,
        failure,
      );
    }
    await client.pause(
      attempt,
      `${file.path} was interrupted at ${showBytes(partial.bytes)} (${printable(why)})`,
      signal,
    );
  }
}

/** Whether the response continues the file at `from`, rather than containing all of it or a different part. */
function goesOn(response: Response, from: number): boolean {
  return (
    response.status === 206 &&
    Number(/^bytes (\d+)-/.exec(response.headers.get('content-range') ?? '')?.[1] ?? NaN) === from
  );
}

const isOfDisk = (error: unknown): boolean =>
  ['ENOSPC', 'EIO', 'EDQUOT', 'EROFS', 'EFBIG'].includes((error as NodeJS.ErrnoException).code ?? '');
