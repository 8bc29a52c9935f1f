// Deletes downloaded weights from the cache. Files that other weights or other programs' snapshots still link to are
// kept.

import { lstatSync, readdirSync, readlinkSync, realpathSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { HubError } from './hub-error.js';
import type { HubCache } from './hub-cache.js';
import type { Weights } from './hub-files.js';
import type { ModelRef } from './model-ref.js';
import { showModelRef } from './model-ref.js';
import { wholeWeights } from './pull.js';

/** Weights to delete: one entry per revision that contains them. */
export interface Removable {
  readonly repo: string;
  readonly entries: readonly { readonly commit: string; readonly weights: Weights; readonly path: string }[];
  /** Whether the repository has no other weights, so that its directory is deleted. */
  readonly isWhole: boolean;
  /** Disk space that the deletion frees, in bytes. */
  readonly bytes: number;
}

/** A download counts as running if a partial file changed within this time. */
const DOWNLOAD_MS = 60_000;

/**
 * Finds the weights to delete. Without a quantization, finds all weights of the repository. Throws HubError
 * `no_such_weights`.
 */
export function removable(cache: HubCache, { repo, weights: wanted, revision }: ModelRef): Removable {
  const all = cache.commits(repo, 'main').flatMap((commit) => {
    const folder = cache.snapshot(repo, commit);
    return wholeWeights(cache, repo, commit, cache.files(repo, commit)).map((weights) => ({
      commit,
      weights,
      path: weights.entry === '' ? folder : join(folder, weights.entry),
    }));
  });
  const inRevision =
    revision === 'main' ? all : all.filter(({ commit }) => cache.commits(repo, revision).includes(commit));
  const entries = wanted === null ? inRevision : inRevision.filter(({ weights }) => isNamed(weights, wanted));
  if (entries.length === 0)
    throw new HubError(
      'no_such_weights',
      `${showModelRef({ repo, weights: wanted, revision })} is not on disk${all.length === 0 ? '' : `; ${repo} has ${[...new Set(all.map(({ weights }) => weights.quantization))].join(', ')}`}`,
    );
  const isWhole = entries.length === all.length;
  const files = new Set(
    entries.flatMap(({ commit, weights }) => weights.files.map(({ path }) => join(cache.snapshot(repo, commit), path))),
  );
  const bytes = [...new Set([...files].map((file) => realpathSync(file)))].reduce(
    (sum, file) => sum + statSync(file).size,
    0,
  );
  return { repo, entries, isWhole, bytes: isWhole ? folderBytes(join(cache.folder(repo), 'blobs'), bytes) : bytes };
}

const isNamed = ({ quantization, entry, files }: Weights, wanted: string): boolean =>
  quantization.toUpperCase() === wanted.toUpperCase() || entry === wanted || files.some(({ path }) => path === wanted);

/** The blobs also include projectors and partial downloads. */
function folderBytes(folder: string, fallback: number): number {
  const sizes = namesIn(folder).map((name) => statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0);
  return sizes.length === 0 ? fallback : sizes.reduce((sum, size) => sum + size, 0);
}

/** Throws HubError `cache` if files cannot be deleted, or if the repository is being downloaded. */
export function remove(cache: HubCache, { repo, entries, isWhole }: Removable): void {
  if (isDownloading(cache, repo))
    throw new HubError('cache', `${repo} is being downloaded; stop the download first, then delete it`);
  try {
    if (isWhole) {
      rmSync(cache.folder(repo), { recursive: true, force: true });
      rmSync(join(cache.root, '.locks', basename(cache.folder(repo))), { recursive: true, force: true });
      return;
    }
    const blobs = new Set<string>();
    for (const { commit, weights } of entries)
      for (const { path } of weights.files) {
        const link = join(cache.snapshot(repo, commit), path);
        const blob = targetOf(link);
        if (blob !== null) blobs.add(blob);
        rmSync(link, { force: true });
      }
    const linked = new Set(cache.commits(repo, 'main').flatMap((commit) => linksIn(cache.snapshot(repo, commit))));
    for (const blob of blobs) if (!linked.has(blob)) rmSync(blob, { force: true });
  } catch (error) {
    throw new HubError('cache', `${cache.folder(repo)} cannot be deleted: ${(error as Error).message}`, error);
  }
}

function isDownloading(cache: HubCache, repo: string): boolean {
  const folder = join(cache.folder(repo), 'blobs');
  return namesIn(folder).some((name) => {
    const changedAt = statSync(join(folder, name), { throwIfNoEntry: false })?.mtimeMs ?? 0;
    return name.endsWith('.incomplete') && Date.now() - changedAt < DOWNLOAD_MS;
  });
}

/** Returns the targets of all links below a snapshot. */
const linksIn = (snapshot: string): string[] =>
  readdirSync(snapshot, { recursive: true, encoding: 'utf8' }).flatMap((path) => targetOf(join(snapshot, path)) ?? []);

/** Returns null if the file is not a link, as in caches without links. */
const targetOf = (path: string): string | null =>
  lstatSync(path).isSymbolicLink() ? resolve(dirname(path), readlinkSync(path)) : null;

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
