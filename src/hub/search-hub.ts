// Searches the hub for repositories with servable weights. Anyone can publish to the hub, so every value is validated
// and truncated.

import { HubError, printable } from './hub-error.js';
import type { HubClient } from './hub-client.js';
import { parseModelRef } from './model-ref.js';

/** One repository found on the hub. */
export interface HubMatch {
  /** OWNER/REPO. */
  readonly repo: string;
  readonly downloads: number;
  readonly likes: number;
  /** ISO time of the last change; null if the hub does not report it. */
  readonly updatedAt: string | null;
  /** Whether the repository's terms must be accepted on the hub before its files can be downloaded. */
  readonly gated: boolean;
}

/** Maximum number of matches. */
export const MAX_MATCHES = 20;
/** How long the hub may take, including retries. Kept short because a user is waiting. */
const SEARCH_MS = 8_000;

/** Returns repositories with GGUF files whose names match `text`, most downloads first. Throws HubError. */
export async function searchHub(client: HubClient, text: string, signal?: AbortSignal): Promise<HubMatch[]> {
  const query = new URLSearchParams({
    search: text,
    filter: 'gguf',
    sort: 'downloads',
    direction: '-1',
    limit: String(MAX_MATCHES),
  });
  const limit = AbortSignal.timeout(SEARCH_MS);
  let found: unknown;
  try {
    found = await client.get(
      `api/models?${query}`,
      'the search',
      signal === undefined ? limit : AbortSignal.any([signal, limit]),
    );
  } catch (error) {
    if (limit.aborted) throw new HubError('unreachable', `the hub did not respond within ${SEARCH_MS / 1000} s`, error);
    throw error;
  }
  if (!Array.isArray(found)) throw new HubError('bad_answer', 'the hub returned no list of models for the search');
  return (found as unknown[]).slice(0, MAX_MATCHES).flatMap(matchOf);
}

function matchOf(entry: unknown): HubMatch[] {
  if (typeof entry !== 'object' || entry === null) return [];
  const { id, modelId, downloads, likes, lastModified, gated } = entry as Record<string, unknown>;
  const name = typeof id === 'string' ? id : modelId;
  if (typeof name !== 'string') return [];
  try {
    const { repo } = parseModelRef(printable(name));
    return [
      {
        repo,
        downloads: countOf(downloads),
        likes: countOf(likes),
        updatedAt: timeOf(lastModified),
        gated: gated !== undefined && gated !== false,
      },
    ];
  } catch {
    return []; // a name that cannot be downloaded
  }
}

const countOf = (value: unknown): number => (typeof value === 'number' && value >= 0 ? Math.floor(value) : 0);
const timeOf = (value: unknown): string | null =>
  typeof value === 'string' && !Number.isNaN(Date.parse(value)) ? new Date(value).toISOString() : null;
