// The first words of the prompt of each stored response, for lists. Responses of earlier releases have none.

import type { Migration } from './migration.js';

export const responsePreviews: Migration = {
  what: 'the first words of stored prompts',
  oldest: 1,
  statements: ['ALTER TABLE responses ADD COLUMN preview text'],
};
