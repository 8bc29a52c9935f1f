// The name of weights on a hub: OWNER/REPO, and after that what to take of it and in which revision. Pure.

import { HubError } from './hub-error.js';

/** What a setting begins with that names weights on a hub and no path. */
export const HUB_SCHEME = 'hf:';

export interface ModelRef {
  /** OWNER/REPO. */
  readonly repo: string;
  /** A quantization (Q4_K_M), a file (model-q8_0.gguf) or `safetensors`; null: whatever memory takes. */
  readonly weights: string | null;
  /** A branch, a tag or a commit. */
  readonly revision: string;
}

/** As the hub allows them: no two dots or dashes in a row, none at an end. */
const PART = /^(?!.*(--|\.\.))[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?$/;
const WEIGHTS = /^[A-Za-z0-9_][A-Za-z0-9._/-]{0,254}$/;
const REVISION = /^(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9._/-]{0,127}$/;

/** `[hf:]OWNER/REPO[:WEIGHTS][@REVISION]`. Throws HubError `bad_name`. */
export function parseModelRef(text: string): ModelRef {
  const bare = text.startsWith(HUB_SCHEME) ? text.slice(HUB_SCHEME.length) : text;
  const [, repo = '', weights, revision] = /^([^:@]*)(?::([^@]*))?(?:@(.*))?$/s.exec(bare) ?? [];
  const parts = repo.split('/');
  const wrong = (what: string): HubError =>
    new HubError(
      'bad_name',
      `${JSON.stringify(text.slice(0, 200))} names no model: ${what}. Expected OWNER/REPO[:QUANTIZATION][@REVISION], such as owner/model-GGUF:Q4_K_M`,
    );
  if (parts.length !== 2 || !parts.every((part) => PART.test(part)))
    throw wrong(`${JSON.stringify(repo.slice(0, 100))} is no OWNER/REPO`);
  if (weights !== undefined && (!WEIGHTS.test(weights) || weights.split('/').includes('..')))
    throw wrong('what stands behind ":" is no quantization and no file');
  if (revision !== undefined && !REVISION.test(revision)) throw wrong('what stands behind "@" is no revision');
  return { repo, weights: weights ?? null, revision: revision ?? 'main' };
}

/** The same again as text, without the scheme. */
export function showModelRef({ repo, weights, revision }: ModelRef): string {
  return repo + (weights === null ? '' : `:${weights}`) + (revision === 'main' ? '' : `@${revision}`);
}
