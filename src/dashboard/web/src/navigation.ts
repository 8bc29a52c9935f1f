// The pages for signed-in users: paths, labels and required roles. Paths are relative to /dashboard.
import type { Role } from '../../../shared/wire/organizations.js';

export interface NavigationItem {
  path: string;
  label: string;
  icon:
    | 'playground'
    | 'models'
    | 'keys'
    | 'usage'
    | 'requests'
    | 'limits'
    | 'responses'
    | 'webhooks'
    | 'files'
    | 'members'
    | 'settings'
    | 'audit'
    | 'live'
    | 'warning'
    | 'tuning'
    | 'organizations'
    | 'users'
    | 'overview';
  /** Minimum role in the organization; absent: any role. */
  role?: Role;
  /** Additional search words for the command palette. */
  words?: string;
}

export interface NavigationGroup {
  label: string;
  operator?: true;
  items: NavigationItem[];
}

/**
 * The sidebar shows either the organization's groups or the operator's. A window 900 pixels high has room for thirteen
 * organization entries and ten operator entries.
 */
export const NAVIGATION: readonly NavigationGroup[] = [
  {
    label: 'Build',
    items: [
      { path: '/', label: 'Overview', icon: 'overview', words: 'home start first request' },
      { path: '/playground', label: 'Playground', icon: 'playground', words: 'chat compare presets' },
      { path: '/models', label: 'Models', icon: 'models', words: 'context window' },
      { path: '/keys', label: 'API keys', icon: 'keys', words: 'token secret' },
    ],
  },
  {
    label: 'Observe',
    items: [
      { path: '/usage', label: 'Usage', icon: 'usage', words: 'cost tokens budget csv' },
      { path: '/requests', label: 'Requests', icon: 'requests', words: 'log errors' },
      { path: '/limits', label: 'Limits', icon: 'limits', words: 'rate limit quota' },
      { path: '/responses', label: 'Stored responses', icon: 'responses', role: 'admin', words: 'conversations' },
      { path: '/files', label: 'Files and batches', icon: 'files', role: 'developer', words: 'upload download jobs' },
    ],
  },
  {
    label: 'Organization',
    items: [
      { path: '/members', label: 'Members', icon: 'members', words: 'invite people roles' },
      { path: '/webhooks', label: 'Webhooks', icon: 'webhooks', role: 'admin', words: 'events endpoints deliveries' },
      { path: '/settings', label: 'Settings', icon: 'settings', words: 'rename delete organization' },
      { path: '/audit-log', label: 'Audit log', icon: 'audit', role: 'admin' },
    ],
  },
  {
    label: 'Engine',
    operator: true,
    items: [
      { path: '/operator/live', label: 'Live', icon: 'live', words: 'engine latency throughput memory' },
      { path: '/operator/alerts', label: 'Alerts', icon: 'warning', words: 'incidents mail webhook slack down error' },
      { path: '/operator/models', label: 'Manage models', icon: 'models', words: 'download pull load unload disk hub' },
      { path: '/operator/tuning', label: 'Tuning', icon: 'tuning', words: 'tunables engine settings runs' },
    ],
  },
  {
    label: 'Accounts',
    operator: true,
    items: [
      {
        path: '/operator/organizations',
        label: 'Organizations',
        icon: 'organizations',
        words: 'limits suspend members keys budget',
      },
      { path: '/operator/users', label: 'Users', icon: 'users', words: 'lock reset operator' },
    ],
  },
  {
    label: 'All organizations',
    operator: true,
    items: [
      { path: '/operator/requests', label: 'All requests', icon: 'requests', words: 'log errors' },
      { path: '/operator/usage', label: 'Total usage', icon: 'usage', words: 'cost prices tokens' },
      { path: '/operator/audit-log', label: 'Server audit log', icon: 'audit', words: 'changes history operators' },
    ],
  },
];

export type Area = 'organization' | 'operator';

/** The area of a page; null for pages in both areas, such as the profile. */
export const areaOf = (path: string): Area | null =>
  path.startsWith('/operator/') ? 'operator' : path === '/profile' ? null : 'organization';

/** The page to open after sign-in: the requested page, if its path belongs to this dashboard. */
export function nextPath(search: string): string {
  const next = new URLSearchParams(search).get('next') ?? '/';
  return /^\/[a-z]/.test(next) ? next : '/';
}
