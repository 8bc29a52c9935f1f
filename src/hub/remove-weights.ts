// Deletes downloaded weights from the hub's cache. The cache is shared with other programs, so a blob is deleted only if
// no snapshot refers to it any more.

import { lstatSync, readdirSync, readlinkSync, rmSync, rmdirSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { HubCache } from './hub-cache.js';
import { HubError } from './hub-error.js';
import { chooseWeights, projectorFor } from './hub-files.js';
import type { ModelRef } from './model-ref.js';
import { wholeWeights } from './pull.js';

/** Deletes the weights from every snapshot. Returns the freed bytes. Throws HubError, `not_found` if there are none. */
export function removeWeights(cache: HubCache, { repo, weights, revision }: ModelRef): number {
  const folder = cache.folder(repo);
  const blobs = new Set<string>();
  let found = false;
  for (const commit of cache.commits(repo, revision)) {
    const files = cache.files(repo, commit);
    const all = wholeWeights(cache, repo, commit, files);
    const chosen = all.filter(({ quantization, entry }) => quantization === weights || entry === weights);
    if (chosen.length === 0) continue;
    found = true;
    const one = chooseWeights(repo, all, weights, Infinity);
    // The projector belongs to all weights of the repository, and goes with the last of them.
    const projector = all.length === 1 ? projectorFor(one, files) : null;
    for (const { path } of projector === null ? one.files : [...one.files, projector]) {
      const link = join(cache.snapshot(repo, commit), path);
      if (lstatSync(link).isSymbolicLink()) blobs.add(resolve(dirname(link), readlinkSync(link)));
      rmSync(link, { force: true });
    }
  }
  if (!found) throw new HubError('not_found', `${repo}:${weights ?? ''} is not in the cache`);
  const used = linkedBlobs(join(folder, 'snapshots'));
  let freed = 0;
  for (const blob of blobs) {
    if (used.has(blob) || !blob.startsWith(join(folder, 'blobs'))) continue;
    freed += statSync(blob, { throwIfNoEntry: false })?.size ?? 0;
    rmSync(blob, { force: true });
  }
  if (used.size === 0) rmSync(folder, { recursive: true, force: true });
  else removeEmpty(join(folder, 'snapshots'));
  return freed;
}

/** Paths of all blobs that a snapshot of the repository refers to, and of files stored in a snapshot itself. */
function linkedBlobs(snapshots: string): Set<string> {
  const used = new Set<string>();
  for (const entry of entriesOf(snapshots)) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isSymbolicLink()) used.add(resolve(dirname(path), readlinkSync(path)));
    else if (entry.isFile()) used.add(path);
  }
  return used;
}

function removeEmpty(snapshots: string): void {
  // deepest first
  for (const entry of entriesOf(snapshots).reverse()) {
    if (!entry.isDirectory()) continue;
    try {
      rmdirSync(join(entry.parentPath, entry.name));
    } catch {
      // not empty
    }
  }
}

function entriesOf(folder: string): import('node:fs').Dirent[] {
  try {
    return readdirSync(folder, { recursive: true, withFileTypes: true });
  } catch {
    return [];
  }
}
