// The permissions of each role. The server enforces this; the page only hides actions that would be refused.
import type { Role } from '../../../shared/wire/organizations.js';

const ORDER: readonly Role[] = ['viewer', 'developer', 'admin', 'owner'];

export const ROLE_CHOICES: readonly { value: Role; label: string; help: string }[] = [
  { value: 'owner', label: 'Owner', help: 'Full access, including deleting the organization' },
  {
    value: 'admin',
    label: 'Admin',
    help: 'Can manage members, invitations, webhooks and all keys, and open stored responses and the audit log',
  },
  {
    value: 'developer',
    label: 'Developer',
    help: 'Can create API keys, edit their own keys, and see files and batches',
  },
  { value: 'viewer', label: 'Viewer', help: 'Can view keys, usage, limits and models' },
];

export const atLeast = (role: Role, least: Role): boolean => ORDER.indexOf(role) >= ORDER.indexOf(least);
export const roleLabel = (role: Role): string => ROLE_CHOICES.find(({ value }) => value === role)?.label ?? role;
