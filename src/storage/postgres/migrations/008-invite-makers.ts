// The user who created an invitation, so that the invitation can be revoked when that user loses the right to invite.
// Null in older rows.

import type { Migration } from './migration.js';

export const inviteMakers: Migration = {
  what: 'who made an invitation',
  oldest: 1,
  statements: ['ALTER TABLE invites ADD COLUMN created_by text COLLATE "C"'],
};
