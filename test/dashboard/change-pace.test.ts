// Tests the rate limit on one user's changes, and the limit on the number of organizations that a user may own.
import t from 'tap';
import { ChangePace } from '../../src/dashboard/api/change-pace.js';
import { startDashboard } from '../support/dashboard-server.js';

t.setTimeout(300_000);

t.test('a user may make 200 changes in a burst, then 10 per second, and other users are unaffected', (t) => {
  let now = 0;
  const pace = new ChangePace(() => now);
  for (let i = 0; i < 200; i++) pace.count('ada');
  t.throws(() => pace.count('ada'), { code: 'too_many_attempts', status: 429, retryAfterMs: 100 });
  pace.count('grace');
  now += 100;
  pace.count('ada');
  t.throws(() => pace.count('ada'), { code: 'too_many_attempts' });
  now += 3_600_000;
  for (let i = 0; i < 200; i++) pace.count('ada');
  t.throws(() => pace.count('ada'), { code: 'too_many_attempts' });
  t.end();
});

t.test('a user may own a limited number of organizations, and a suspended one still counts', async (t) => {
  const server = await startDashboard({ accounts: { organizations_per_user: 2 } });
  t.teardown(() => server.close());
  await server.client().signUp({ email: 'operator@example.com' });
  const ada = server.client();
  const { organization } = await ada.signUp({ email: 'ada@example.com' });
  const second = await ada.post<{ id: string }>('/organizations', { name: 'second' });
  await t.rejects(ada.post('/organizations', { name: 'third' }), { status: 422, code: 'too_many_entries' });
  await ada.delete(`/organizations/${second.id}`);
  await server.server.accounts.setOrganizationStatus(organization.id, 'suspended');
  await t.rejects(ada.post('/organizations', { name: 'way out' }), { status: 403, code: 'organization_suspended' });
});
