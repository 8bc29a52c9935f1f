// Loads a saved item into the playground: a preset replaces only the settings, and a conversation also replaces the
// turns.
import type { SavedContent, SavedItem } from '../../../../shared/wire/playground.js';
import { dialogueOf, MAX_COLUMNS, storeCompared, storeSettings } from './dialogues.js';
import { settingsOf, turnsOf } from './saved.js';
import type { Settings } from './settings.js';

export interface Opened {
  settings: Settings;
  compared: string[];
}

export function openContent(
  organizationId: string,
  { kind, content }: Pick<SavedItem, 'kind'> & { content: SavedContent },
): Opened {
  const settings = settingsOf(content);
  const compared = content.columns.slice(1, MAX_COLUMNS).map(({ model }) => model);
  storeSettings(settings);
  storeCompared(compared);
  if (kind === 'conversation') {
    for (let column = 0; column < MAX_COLUMNS; column++)
      dialogueOf(organizationId, column).open(turnsOf(content.columns[column]?.turns ?? []));
  }
  return { settings, compared };
}
