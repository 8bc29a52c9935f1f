// Checks that some page test checks each dashboard page for accessibility (checkLook() in test/support/browser.ts).
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { root } from '../e2e/monolith.js';

/** The name under which a test checks the page of each route. */
const CHECKED: Readonly<Record<string, string>> = {
  '/': 'overview',
  '/signin': 'sign-in',
  '/signup': 'sign-up',
  '/accept-invite': 'join',
  '/forgot': 'forgot-password',
  '/reset': 'reset-password-error',
  '/verify': 'verify-email',
  '/playground': 'playground-answer',
  '/shared/:organization/:id': 'playground-shared',
  '/models': 'models',
  '/keys': 'keys',
  '/usage': 'usage',
  '/requests': 'requests',
  '/limits': 'limits',
  '/responses': 'responses',
  '/webhooks': 'webhooks',
  '/files': 'files',
  '/members': 'members',
  '/settings': 'settings',
  '/audit-log': 'audit-log',
  '/profile': 'profile',
  '/operator/live': 'operator-live',
  '/operator/alerts': 'operator-alerts',
  '/operator/tuning': 'operator-tuning',
  '/operator/models': 'operator-models',
  '/operator/organizations': 'operator-organizations',
  '/operator/users': 'operator-users',
  '/operator/requests': 'operator-requests',
  '/operator/audit-log': 'operator-audit-log',
  '/operator/usage': 'operator-usage',
};

t.test('every page of the dashboard is checked for accessibility', (t) => {
  const routes = [
    ...readFileSync(join(root, 'src/dashboard/web/src/app.tsx'), 'utf8').matchAll(
      /<Route path="([^"]+)">(?!\s*<Redirect)/g,
    ),
  ].map(([, path]) => path as string);
  t.same([...routes].sort(), Object.keys(CHECKED).sort(), 'a new page needs a checkLook() in test/web and a line here');
  const folder = join(root, 'test/web');
  const tests = readdirSync(folder)
    .map((name) => readFileSync(join(folder, name), 'utf8'))
    .join('\n');
  const checked = new Set([...tests.matchAll(/checkLook\([\w.]+, '([^']+)'/g)].map(([, name]) => name));
  for (const [path, name] of Object.entries(CHECKED)) t.ok(checked.has(name), `${path} is checked as ${name}`);
  t.end();
});
