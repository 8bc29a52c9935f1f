// Who made an invitation, so that it goes with their right to make it. Those of before say nothing of it.

import type { Migration } from './migration.js';

export const inviteMakers: Migration = {
  what: 'who made an invitation',
  oldest: 1,
  statements: ['ALTER TABLE invites ADD COLUMN created_by text COLLATE "C"'],
};
