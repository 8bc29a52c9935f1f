// The hub's standard cache on disk, shared with huggingface_hub and other programs:
//
//   models--OWNER--REPO/blobs/HASH                        a complete file; renamed to this after its hash was verified
//   models--OWNER--REPO/blobs/HASH.monolith.incomplete    a partial download
//   models--OWNER--REPO/snapshots/COMMIT/PATH             a link to the blob
//   models--OWNER--REPO/refs/REVISION                     the commit of a branch or tag
//   .locks/models--OWNER--REPO/HASH.monolith.lock         held during a download

import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { HubError, isShown } from './hub-error.js';
import type { HubFile } from './hub-files.js';
import { makeFolder } from '../shared/make-folder.js';

const COMMIT = /^[0-9a-f]{40}$/;
const MAX_FILES = 10_000;

export class HubCache {
  constructor(readonly root: string) {}

  folder(repo: string): string {
    return join(this.root, `models--${repo.replace('/', '--')}`);
  }
  blob(repo: string, hash: string): string {
    return join(this.folder(repo), 'blobs', hash);
  }
  partial(repo: string, hash: string): string {
    return `${this.blob(repo, hash)}.monolith.incomplete`;
  }
  lock(repo: string, hash: string): string {
    return join(this.root, '.locks', `models--${repo.replace('/', '--')}`, `${hash}.monolith.lock`);
  }
  snapshot(repo: string, commit: string): string {
    return join(this.folder(repo), 'snapshots', commit);
  }

  /** Returns the names of the cached repositories. */
  repos(): string[] {
    return names(this.root)
      .flatMap((name) => {
        const [, owner, repo] = /^models--(.+?)--(.+)$/.exec(name) ?? [];
        return owner === undefined || repo === undefined ? [] : [`${owner}/${repo}`];
      })
      .sort();
  }

  /** Returns the commits that have a snapshot: the revision's commit first, then the others, newest first. */
  commits(repo: string, revision: string): string[] {
    const folder = join(this.folder(repo), 'snapshots');
    const dated = names(folder)
      .filter((name) => COMMIT.test(name))
      .map((name) => ({ name, time: statSync(join(folder, name), { throwIfNoEntry: false })?.mtimeMs ?? 0 }));
    const all = dated.sort((a, b) => b.time - a.time).map(({ name }) => name);
    const first = COMMIT.test(revision) ? revision : this.#ref(repo, revision);
    if (COMMIT.test(revision)) return all.filter((name) => name === revision);
    return first !== null && all.includes(first)
      ? [first, ...all.filter((name) => name !== first)]
      : revision === 'main'
        ? all
        : [];
  }

  /** Returns the complete files of a snapshot. */
  files(repo: string, commit: string): HubFile[] {
    const folder = this.snapshot(repo, commit);
    let entries: string[];
    try {
      entries = readdirSync(folder, { recursive: true, encoding: 'utf8' });
    } catch {
      return [];
    }
    return entries.slice(0, MAX_FILES).flatMap((path) => {
      const stat = statSync(join(folder, path), { throwIfNoEntry: false }); // follows links
      return stat?.isFile() === true ? [{ path: path.split(sep).join('/'), bytes: stat.size, hash: '' }] : [];
    });
  }

  has(repo: string, { hash, bytes }: HubFile): boolean {
    return statSync(this.blob(repo, hash), { throwIfNoEntry: false })?.size === bytes;
  }

  /** Links a complete blob into a snapshot, replacing any existing entry. */
  link(repo: string, commit: string, { path, hash }: HubFile): void {
    const at = join(this.snapshot(repo, commit), path);
    const target = relative(dirname(at), this.blob(repo, hash));
    replace(at, (temporary) => symlinkSync(target, temporary));
  }

  /** Records the commit of a branch or tag. Must be called after all required files are in the snapshot. */
  setRef(repo: string, revision: string, commit: string): void {
    if (revision === commit || this.#ref(repo, revision) === commit) return;
    const at = join(this.folder(repo), 'refs', revision);
    replace(at, (temporary) => writeFileSync(temporary, commit));
  }

  #ref(repo: string, revision: string): string | null {
    try {
      const commit = readFileSync(join(this.folder(repo), 'refs', revision), 'utf8').trim();
      return COMMIT.test(commit) ? commit : null;
    } catch {
      return null;
    }
  }
}

function names(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

let made = 0;

/**
 * Creates or replaces `at` atomically. The temporary name has a fixed length, so that it is valid wherever the final
 * name is.
 */
function replace(at: string, make: (temporary: string) => void): void {
  const failed = (error: unknown): HubError =>
    new HubError('cache', `${at} cannot be written: ${(error as Error).message}`, error);
  const temporary = join(dirname(at), `.${process.pid}-${++made}.new`);
  try {
    makeFolder(dirname(at));
  } catch (error) {
    throw failed(error);
  }
  try {
    rmSync(temporary, { force: true });
    make(temporary);
    renameSync(temporary, at);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw failed(error);
  }
}

/** Syncs a directory, which makes renames in it durable. */
export function syncFolder(folder: string): void {
  const descriptor = openSync(folder, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Maximum length of a file or directory name on Linux, in bytes. */
const MAX_NAME_BYTES = 255;

/**
 * Whether a path sent by a server is safe to use and to show: it stays within its directory, each component fits in a
 * file name, and no character controls a terminal or reorders the surrounding text.
 */
export function isSafePath(path: string): boolean {
  return (
    path.length > 0 &&
    path.length <= 512 &&
    !path.includes('\\') &&
    isShown(path) &&
    path
      .split('/')
      .every((part) => part !== '' && part !== '.' && part !== '..' && Buffer.byteLength(part) <= MAX_NAME_BYTES)
  );
}

/** Whether all shards named in a directory's index exist. */
export function hasAllShards(folder: string): boolean {
  const index = join(folder, 'model.safetensors.index.json');
  if (!existsSync(index)) return true;
  try {
    const { weight_map: map } = JSON.parse(readFileSync(index, 'utf8')) as { weight_map?: Record<string, unknown> };
    return Object.values(map ?? {}).every(
      (name) => typeof name === 'string' && isSafePath(name) && existsSync(join(folder, name)),
    );
  } catch {
    return false;
  }
}
