// Downloads weights from a hub into the cache, or finds them there. Files in a snapshot are always complete; a snapshot
// is used only once it contains all wanted files.

import { statfsSync, statSync } from 'node:fs';
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
import { makeFolder } from '../shared/make-folder.js';

export interface PullProgress {
  /** The selected quantization. */
  readonly quantization: string;
  /** The current file. */
  readonly file: string;
  readonly bytes: number;
  readonly total: number;
  /** The part of `bytes` that was already on disk. */
  readonly kept: number;
  /** Whether another pull is downloading this file. */
  readonly waiting: boolean;
}

export interface PullOptions {
  /** Memory in bytes, used to select the weights. */
  readonly memory: number;
  readonly signal?: AbortSignal | undefined;
  /** Called for each chunk, which is very often. */
  onProgress?(progress: PullProgress): void;
  /** Called after a temporary failure of the hub or the connection, with the delay before the next attempt. */
  onRetry?(why: string, waitMs: number): void;
}

export interface Pulled {
  readonly quantization: string;
  /** The path to serve: a GGUF file, the first part of a split GGUF file, or a directory. */
  readonly path: string;
  /** Path of the vision projector; null if there is none. */
  readonly projector: string | null;
  readonly commit: string;
  /** Total number of bytes, and how many of them were downloaded. */
  readonly bytes: number;
  readonly fetched: number;
}

/** Disk space that must stay free. */
const RESERVE = 256 * 1024 * 1024;

/**
 * Downloads the weights that are missing. Throws HubError. Data downloaded before the error is kept and used by the
 * next pull.
 */
export async function pull(
  { repo, weights: wanted, revision }: ModelRef,
  hub: HubClient,
  cache: HubCache,
  options: PullOptions,
): Promise<Pulled> {
  const { signal } = options;
  const client = hub.withRetryListener(options.onRetry?.bind(options));
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
    const report = (bytes: number): void =>
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
        report(bytes);
      },
      waiting: () => {
        waiting = true;
        report(0);
      },
    });
    done += file.bytes;
  }
  for (const file of all) cache.link(repo, commit, file);
  cache.setRef(repo, revision, commit);
  return { ...placed(cache, repo, commit, weights, projector), fetched: total - kept };
}

/**
 * Returns the result of a pull that needs no downloads, or null if files are missing. Does not contact any server.
 * Throws HubError if no weights can be selected.
 */
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

/** The servable weights among the files of a snapshot. */
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
    makeFolder(cache.root);
    const { bavail, bsize } = statfsSync(cache.root);
    free = bavail * bsize;
  } catch (error) {
    throw new HubError('cache', `the folder ${cache.root} cannot be used: ${(error as Error).message}`, error);
  }
  if (wanted + RESERVE > free)
    throw new HubError(
      'no_space',
      `cannot download ${showBytes(wanted)} of ${repo}: ${cache.root} has ${showBytes(free)} free, and ${showBytes(RESERVE)} must stay free; set hub.cache to use another folder`,
    );
}

const partBytes = (cache: HubCache, repo: string, { hash, bytes }: HubFile): number =>
  Math.min(bytes, statSync(cache.partial(repo, hash), { throwIfNoEntry: false })?.size ?? 0);
const sum = (files: readonly HubFile[]): number => files.reduce((total, { bytes }) => total + bytes, 0);
