// The conversations of the current page visit, one per organization and playground column. They survive navigation
// within the dashboard. The settings are kept in browser storage.
import { API, ApiFailure, messageOf, send } from '../api.js';
import { Dialogue } from './dialogue.js';
import { NO_SETTINGS } from './settings.js';
import type { Settings } from './settings.js';

/** Maximum number of models to compare. */
export const MAX_COLUMNS = 4;

const dialogues = new Map<string, Dialogue>();

/** `column`: the model's column in a comparison, otherwise 0. */
export function dialogueOf(organizationId: string, column: number): Dialogue {
  const key = `${organizationId} ${column}`;
  let dialogue = dialogues.get(key);
  if (dialogue === undefined) {
    dialogue = new Dialogue({
      schedule: (tell) => {
        requestAnimationFrame(tell);
      },
      open: (body, signal) =>
        send('POST', `${API}/organizations/${organizationId}/playground`, {
          body,
          signal,
          headers: { Accept: 'text/event-stream' },
        }),
      problemOf: (error) =>
        error instanceof ApiFailure
          ? {
              message: error.message,
              code: error.code,
              param: error.param,
              status: error.status,
              requestId: error.requestId,
              ...(error.retryAfterMs === null ? {} : { retryAfterS: error.retryAfterMs / 1000 }),
            }
          : {
              message:
                error instanceof TypeError
                  ? 'The connection was lost before the response was complete.'
                  : messageOf(error),
              code: null,
              param: null,
              status: null,
              requestId: null,
            },
    });
    dialogues.set(key, dialogue);
  }
  return dialogue;
}

const SETTINGS = 'monolith.playground';
const COMPARED = 'monolith.playground.compared';

export function storedSettings(): Settings {
  const stored = read(SETTINGS);
  if (typeof stored !== 'object' || stored === null) return NO_SETTINGS;
  const known = Object.entries(stored).filter(([name, value]) => name in NO_SETTINGS && typeof value === 'string');
  return { ...NO_SETTINGS, ...Object.fromEntries(known) };
}

export function storeSettings(settings: Settings): void {
  write(SETTINGS, settings);
}

/** The models to compare with the first column's model. */
export function storedCompared(): string[] {
  const stored = read(COMPARED);
  return Array.isArray(stored)
    ? stored.filter((name): name is string => typeof name === 'string').slice(0, MAX_COLUMNS - 1)
    : [];
}

export function storeCompared(models: readonly string[]): void {
  write(COMPARED, models);
}

function read(key: string): unknown {
  try {
    return JSON.parse(localStorage.getItem(key) ?? 'null') as unknown;
  } catch {
    return null;
  }
}

function write(key: string, value: unknown): void {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // storage is unavailable, so the settings are kept only for this visit
  }
}
