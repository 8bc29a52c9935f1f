// Adds settings to a JSON configuration file without changing others.

import { isDeepStrictEqual } from 'node:util';

type Entry = Readonly<Record<string, unknown>>;

/**
 * One setting. `default`: set only if it is absent. `own`: always replaced, because this program wrote it. `list`:
 * entries for which `isOwn` returns true are replaced, and the others are kept. If no mode is given, a different
 * existing value is a conflict.
 */
export type Edit =
  | { readonly path: readonly string[]; readonly value: unknown; readonly mode?: 'default' | 'own' }
  | {
      readonly path: readonly string[];
      readonly value: readonly Entry[];
      readonly mode: 'list';
      readonly isOwn: (entry: Entry) => boolean;
    };

export interface Edited {
  readonly text: string;
  /** Paths of the conflicting settings, whose previous values are overwritten in `text`. */
  readonly replaced: readonly string[];
}

/**
 * `text`: the file's content, or null. Returns null if the content is not a JSON object, for example because of
 * comments.
 */
export function editJson(text: string | null, edits: readonly Edit[]): Edited | null {
  const root = objectIn(text);
  if (root === null) return null;
  const replaced: string[] = [];
  for (const edit of edits) apply(root, edit, replaced);
  return { text: `${JSON.stringify(root, null, 2)}\n`, replaced };
}

type Settings = Record<string, unknown>;

const isObject = (value: unknown): value is Settings =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function objectIn(text: string | null): Settings | null {
  if (text === null || text.trim() === '') return {};
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}

function apply(root: Settings, edit: Edit, replaced: string[]): void {
  let at = root;
  for (const name of edit.path.slice(0, -1)) {
    if (Object.hasOwn(at, name) && !isObject(at[name])) replaced.push(edit.path.join('.'));
    if (!isObject(at[name])) at[name] = {};
    at = at[name] as Settings;
  }
  const name = edit.path.at(-1) as string;
  const before = Object.hasOwn(at, name) ? at[name] : undefined;
  if (edit.mode === 'list') {
    if (before !== undefined && !Array.isArray(before)) replaced.push(edit.path.join('.'));
    const kept = Array.isArray(before) ? before.filter((entry) => !isObject(entry) || !edit.isOwn(entry)) : [];
    at[name] = [...kept, ...edit.value];
    return;
  }
  if (edit.mode === 'default' && before !== undefined) return;
  if (edit.mode === undefined && before !== undefined && !isDeepStrictEqual(before, edit.value))
    replaced.push(edit.path.join('.'));
  at[name] = edit.value;
}
