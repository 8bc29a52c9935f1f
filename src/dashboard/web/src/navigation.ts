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
    | 'members'
    | 'settings'
    | 'audit'
    | 'live'
    | 'tunables'
    | 'tuning'
    | 'organizations'
    | 'users'
    | 'operator-models'
    | 'overview';
  /** Minimum role in the organization; absent: any role. */
  role?: Role;
}

export interface NavigationGroup {
  label: string;
  operator?: true;
  items: NavigationItem[];
}

export const NAVIGATION: readonly NavigationGroup[] = [
  {
    label: 'Build',
    items: [
      { path: '/', label: 'Overview', icon: 'overview' },
      { path: '/playground', label: 'Playground', icon: 'playground' },
      { path: '/models', label: 'Models', icon: 'models' },
      { path: '/keys', label: 'API keys', icon: 'keys' },
    ],
  },
  {
    label: 'Observe',
    items: [
      { path: '/usage', label: 'Usage', icon: 'usage' },
      { path: '/requests', label: 'Requests', icon: 'requests' },
      { path: '/limits', label: 'Limits', icon: 'limits' },
      { path: '/responses', label: 'Stored responses', icon: 'responses', role: 'admin' },
    ],
  },
  {
    label: 'Organization',
    items: [
      { path: '/members', label: 'Members', icon: 'members' },
      { path: '/settings', label: 'Settings', icon: 'settings' },
      { path: '/audit-log', label: 'Audit log', icon: 'audit', role: 'admin' },
    ],
  },
  {
    label: 'Operator',
    operator: true,
    items: [
      { path: '/operator/live', label: 'Live engine', icon: 'live' },
      { path: '/operator/tunables', label: 'Tunables', icon: 'tunables' },
      { path: '/operator/tuning', label: 'Tuning', icon: 'tuning' },
      { path: '/operator/models', label: 'Model lifecycle', icon: 'operator-models' },
      { path: '/operator/organizations', label: 'Organizations', icon: 'organizations' },
      { path: '/operator/users', label: 'Users', icon: 'users' },
      { path: '/operator/requests', label: 'All requests', icon: 'requests' },
      { path: '/operator/usage', label: 'Total usage', icon: 'usage' },
      { path: '/operator/audit-log', label: 'Server audit log', icon: 'audit' },
    ],
  },
];

/** The page to be opened after sign-in: the requested one, if its path belongs to this dashboard. */
export function nextPath(search: string): string {
  const next = new URLSearchParams(search).get('next') ?? '/';
  return /^\/[a-z]/.test(next) ? next : '/';
}
