// Form state for an organization's limits: for each model and kind of limit, the typed text or "no limit". No side
// effects.

import type { LimitOverrides, LimitValues } from '../../../../shared/wire/limits.js';

export type LimitKind = keyof LimitValues;
export const LIMIT_KINDS: readonly { kind: LimitKind; label: string }[] = [
  { kind: 'rpm', label: 'Requests per minute' },
  { kind: 'tpm', label: 'Tokens per minute' },
  { kind: 'concurrency', label: 'Concurrent requests' },
];

/** The text of an input: '' means that the more general limit applies; `off` means no limit. */
export interface LimitDraft {
  text: string;
  off: boolean;
}
export type LimitDrafts = Record<string, Record<LimitKind, LimitDraft>>;

const MOST = 1_000_000_000;

export function draftsOf(overrides: LimitOverrides, names: readonly string[]): LimitDrafts {
  return Object.fromEntries(
    names.map((name) => [
      name,
      Object.fromEntries(
        LIMIT_KINDS.map(({ kind }) => {
          const value = overrides[name]?.[kind];
          return [kind, { text: value == null ? '' : String(value), off: value === null }];
        }),
      ) as Record<LimitKind, LimitDraft>,
    ]),
  );
}

/** The error for a draft; null if it is valid. */
export function limitProblem({ text, off }: LimitDraft): string | null {
  if (off || text.trim() === '') return null;
  const value = Number(text.replaceAll(/[,_\s]/g, ''));
  return Number.isInteger(value) && value >= 1 && value <= MOST ? null : 'Must be a whole number of at least 1.';
}

/** The body of the PATCH request, or null if a draft is invalid. Models that inherit all their limits are omitted. */
export function overridesOf(drafts: LimitDrafts): LimitOverrides | null {
  const overrides: LimitOverrides = {};
  for (const [name, draft] of Object.entries(drafts)) {
    const values: Partial<LimitValues> = {};
    for (const { kind } of LIMIT_KINDS) {
      if (limitProblem(draft[kind]) !== null) return null;
      if (draft[kind].off) values[kind] = null;
      else if (draft[kind].text.trim() !== '') values[kind] = Number(draft[kind].text.replaceAll(/[,_\s]/g, ''));
    }
    if (Object.keys(values).length > 0) overrides[name] = values;
  }
  return overrides;
}
