// Parses references to weights on a hub: OWNER/REPO, optionally with the weights to use and a revision. No side
// effects.

import { HubError } from './hub-error.js';

/** Prefix for settings that refer to weights on a hub rather than a path. */
export const HUB_SCHEME = 'hf:';

export interface ModelRef {
  /** OWNER/REPO. */
  readonly repo: string;
  /**
   * A quantization (Q4_K_M), a file (model-q8_0.gguf) or `safetensors`. If null, the weights are selected by
   * available memory.
   */
  readonly weights: string | null;
  /** A branch, a tag or a commit. */
  readonly revision: string;
}

/** The hub's naming rules: no two consecutive dots or dashes, and none at either end. */
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
      `${JSON.stringify(text.slice(0, 200))} is not a model reference: ${what}. Expected OWNER/REPO[:QUANTIZATION][@REVISION], such as owner/model-GGUF:Q4_K_M`,
    );
  if (parts.length !== 2 || !parts.every((part) => PART.test(part)))
    throw wrong(`${JSON.stringify(repo.slice(0, 100))} is not OWNER/REPO`);
  if (weights !== undefined && (!WEIGHTS.test(weights) || weights.split('/').includes('..')))
    throw wrong('the part after ":" is neither a quantization nor a file');
  if (revision !== undefined && !REVISION.test(revision)) throw wrong('the part after "@" is not a revision');
  return { repo, weights: weights ?? null, revision: revision ?? 'main' };
}

/** The reference as text, without the scheme. */
export function showModelRef({ repo, weights, revision }: ModelRef): string {
  return repo + (weights === null ? '' : `:${weights}`) + (revision === 'main' ? '' : `@${revision}`);
}
