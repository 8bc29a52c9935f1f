// Brings weights from a hub into the cache, or finds them there. What is in a snapshot is whole; a snapshot is used once all
// that was wanted of it is in it.

import { mkdirSync, statfsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { showBytes } from '../config/kinds.js';
import { fetchBlob } from './fetch-blob.js';
import { hasAllShards } from './hub-cache.js';
import type { HubCache } from './hub-cache.js';
import type { HubClient } from './hub-client.js';
import { HubError } from './hub-error.js';
import { chooseWeights, projectorFor, weightsOf } from './hub-files.js';
import type { HubFile, Weights } from './hub-files.js';
import type { ModelRef } from './model-ref.js';

export interface PullProgress {
  /** What was chosen. */
  readonly quantization: string;
  /** The file that is coming. */
  readonly file: string;
  readonly bytes: number;
  readonly total: number;
  /** Of `bytes`, what was there before. */
  readonly kept: number;
  /** Another pull brings this file. */
  readonly waiting: boolean;
}

export interface PullOptions {
  /** Bytes of memory that what is chosen has to go by. */
  readonly memory: number;
  readonly signal?: AbortSignal | undefined;
  /** At each piece that comes: often. */
  onProgress?(progress: PullProgress): void;
  /** The hub, or the line to it, failed, and is tried again after so many milliseconds. */
  onRetry?(why: string, waitMs: number): void;
}

export interface Pulled {
  readonly quantization: string;
  /** What is served: a GGUF file, the first part of one, or a folder. */
  readonly path: string;
  /** Of the vision projector beside it; null: there is none. */
  readonly projector: string | null;
  readonly commit: string;
  /** Of all that belongs to it, and what of that had to be fetched. */
  readonly bytes: number;
  readonly fetched: number;
}

/** The disk keeps that much free. */
const RESERVE = 256 * 1024 * 1024;

/** Throws HubError. What has come of it by then is kept, and used by the next one. */
export async function pull(
  { repo, weights: wanted, revision }: ModelRef,
  hub: HubClient,
  cache: HubCache,
  options: PullOptions,
): Promise<Pulled> {
  const { signal } = options;
  const client = hub.telling(options.onRetry?.bind(options));
  const commit = await client.commit(repo, revision, signal);
  const files = await client.files(repo, commit, signal);
  const weights = chooseWeights(repo, weightsOf(files), wanted, options.memory);
  const projector = projectorFor(weights, files);
  const all = projector === null ? weights.files : [...weights.files, projector];
  const total = sum(all);
  const missing = all.filter((file) => !cache.has(repo, file));
  checkRoom(cache, repo, missing);

  let done = total - sum(missing);
  const kept = done + missing.reduce((bytes, file) => bytes + partBytes(cache, repo, file), 0);
  for (const file of missing) {
    let waiting = false;
    const tell = (bytes: number): void =>
      options.onProgress?.({
        quantization: weights.quantization,
        file: file.path,
        bytes: done + bytes,
        total,
        kept,
        waiting,
      });
    await fetchBlob(file, {
      client,
      cache,
      repo,
      commit,
      signal,
      progress: (bytes) => {
        waiting = false;
        tell(bytes);
      },
      waiting: () => {
        waiting = true;
        tell(0);
      },
    });
    done += file.bytes;
  }
  for (const file of all) cache.link(repo, commit, file);
  cache.setRef(repo, revision, commit);
  return { ...placed(cache, repo, commit, weights, projector), fetched: total - kept };
}

/** What a pull would give, if it is in the cache already; null if not. No server is asked. Throws HubError for a choice that cannot be made. */
export function cached({ repo, weights: wanted, revision }: ModelRef, cache: HubCache, memory: number): Pulled | null {
  for (const commit of cache.commits(repo, revision)) {
    const files = cache.files(repo, commit);
    const all = wholeWeights(cache, repo, commit, files);
    if (all.length === 0) continue;
    try {
      const weights = chooseWeights(repo, all, wanted, wanted === null ? memory : Infinity);
      return { ...placed(cache, repo, commit, weights, projectorFor(weights, files)), fetched: 0 };
    } catch (error) {
      if (!(error instanceof HubError)) throw error;
    }
  }
  return null;
}

/** Of the files of a snapshot, what can be served. */
export function wholeWeights(cache: HubCache, repo: string, commit: string, files: readonly HubFile[]): Weights[] {
  return weightsOf(files).filter(({ entry }) => entry !== '' || hasAllShards(cache.snapshot(repo, commit)));
}

function placed(
  cache: HubCache,
  repo: string,
  commit: string,
  weights: Weights,
  projector: HubFile | null,
): Omit<Pulled, 'fetched'> {
  const folder = cache.snapshot(repo, commit);
  return {
    quantization: weights.quantization,
    path: join(folder, weights.entry),
    projector: projector === null ? null : join(folder, projector.path),
    commit,
    bytes: sum(weights.files) + (projector?.bytes ?? 0),
  };
}

function checkRoom(cache: HubCache, repo: string, missing: readonly HubFile[]): void {
  const wanted = missing.reduce((bytes, file) => bytes + file.bytes - partBytes(cache, repo, file), 0);
  if (wanted === 0) return;
  let free: number;
  try {
    mkdirSync(cache.root, { recursive: true });
    const { bavail, bsize } = statfsSync(cache.root);
    free = bavail * bsize;
  } catch (error) {
    throw new HubError('cache', `the folder ${cache.root} cannot be used: ${(error as Error).message}`, error);
  }
  if (wanted + RESERVE > free)
    throw new HubError(
      'no_space',
      `${showBytes(wanted)} of ${repo} are to be fetched, and ${cache.root} has ${showBytes(free)} free (${showBytes(RESERVE)} of it stay so). hub.cache names another folder`,
    );
}

const partBytes = (cache: HubCache, repo: string, { hash, bytes }: HubFile): number =>
  Math.min(bytes, statSync(cache.partial(repo, hash), { throwIfNoEntry: false })?.size ?? 0);
const sum = (files: readonly HubFile[]): number => files.reduce((total, { bytes }) => total + bytes, 0);
