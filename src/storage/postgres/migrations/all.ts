// All migrations in order; the first one creates version 1. Append only; never change or move a released one.

import { processes } from './001-processes.js';
import { responses } from './002-responses.js';
import { accounts } from './003-accounts.js';
import { settings } from './004-settings.js';
import { usage } from './005-usage.js';
import { imports } from './006-imports.js';
import { releases } from './007-releases.js';
import { inviteMakers } from './008-invite-makers.js';
import { revokedKeys } from './009-revoked-keys.js';
import { clockSkew } from './010-clock-skew.js';
import type { Migration } from './migration.js';

export const MIGRATIONS: readonly Migration[] = [
  processes,
  responses,
  accounts,
  settings,
  usage,
  imports,
  releases,
  inviteMakers,
  revokedKeys,
  clockSkew,
];
