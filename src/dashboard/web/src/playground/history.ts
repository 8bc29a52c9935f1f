// The browser's stored conversations, by organization. They belong to one user: they are hidden from any other user,
// whose conversations overwrite them after sign-in. Signing out deletes all of them. Images are omitted.
import type { SavedContent } from '../../../../shared/wire/playground.js';

export interface HistoryEntry {
  id: string;
  title: string;
  /** ISO time of the last message. */
  at: string;
  content: SavedContent;
}

interface Stored {
  user: string;
  entries: HistoryEntry[];
}

const PREFIX = 'monolith.playground.history.';
/** Maximum number of entries per organization, and maximum number of characters that they may occupy in storage. */
const MAX_ENTRIES = 30;
const MAX_CHARACTERS = 1_500_000;
const MAX_TITLE = 60;

/** The part of the Storage interface that this module uses. */
export interface HistoryStorage {
  readonly length: number;
  key(at: number): string | null;
  getItem(name: string): string | null;
  setItem(name: string, value: string): void;
  removeItem(name: string): void;
}

/** Newest first. Empty if the storage is unavailable or belongs to another user. */
export function historyOf(storage: HistoryStorage, userId: string, organizationId: string): HistoryEntry[] {
  try {
    const stored = JSON.parse(storage.getItem(PREFIX + organizationId) ?? 'null') as Stored | null;
    return stored !== null && stored.user === userId && Array.isArray(stored.entries) ? stored.entries : [];
  } catch {
    return [];
  }
}

/** Adds or replaces an entry, and drops the oldest ones beyond the limits. */
export function remember(storage: HistoryStorage, userId: string, organizationId: string, entry: HistoryEntry): void {
  const others = historyOf(storage, userId, organizationId).filter(({ id }) => id !== entry.id);
  write(storage, userId, organizationId, [entry, ...others]);
}

export function forget(storage: HistoryStorage, userId: string, organizationId: string, id: string): void {
  write(
    storage,
    userId,
    organizationId,
    historyOf(storage, userId, organizationId).filter((entry) => entry.id !== id),
  );
}

/** Deletes all conversations of all organizations. */
export function clearHistory(storage: HistoryStorage): void {
  try {
    const names = Array.from({ length: storage.length }, (_, at) => storage.key(at));
    for (const name of names) if (name?.startsWith(PREFIX) === true) storage.removeItem(name);
  } catch {
    // storage is unavailable, so there is nothing to delete
  }
}

function write(storage: HistoryStorage, user: string, organizationId: string, entries: readonly HistoryEntry[]): void {
  for (let kept = entries.slice(0, MAX_ENTRIES); ; kept = kept.slice(0, -1)) {
    const text = JSON.stringify({ user, entries: kept } satisfies Stored);
    if (text.length > MAX_CHARACTERS && kept.length > 0) continue;
    try {
      storage.setItem(PREFIX + organizationId, text);
      return;
    } catch {
      if (kept.length === 0) return; // storage is full or unavailable
    }
  }
}

/** The first line of the first message, shortened at a word; empty if there is no message. */
export function titleOf({ columns }: SavedContent): string {
  const first = columns.flatMap(({ turns }) => turns).find(({ kind }) => kind === 'user');
  const line = (first?.kind === 'user' ? first.text : '').trim().split('\n')[0]?.trim() ?? '';
  if (line.length <= MAX_TITLE) return line;
  const cut = line.slice(0, MAX_TITLE);
  const space = cut.lastIndexOf(' ');
  return `${(space > MAX_TITLE / 2 ? cut.slice(0, space) : cut).trim()} …`;
}

// The ID of the conversation on the page, per organization. It survives navigation within the dashboard, as the
// conversation does.
const current = new Map<string, string>();

export function currentId(organizationId: string): string {
  let id = current.get(organizationId);
  if (id === undefined) current.set(organizationId, (id = crypto.randomUUID()));
  return id;
}

/** Sets the entry to which later messages belong. If `id` is absent, they start a new entry. */
export function setCurrentId(organizationId: string, id?: string): void {
  if (id === undefined) current.delete(organizationId);
  else current.set(organizationId, id);
}
