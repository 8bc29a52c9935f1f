// A scripted server whose dashboard somebody has signed up on: its first user, operator and owner of an
// organization of their own.

import { dashboardClient, type DashboardClient } from './dashboard-client.js';
import { startScripted } from './script-model.js';
import type { Monolith } from '../e2e/monolith.js';

export interface Owned {
  server: Monolith;
  owner: DashboardClient;
  organization: { id: string; name: string };
  /** Somebody who is not signed in. */
  client(): DashboardClient;
  close(): Promise<void>;
}

export async function openOwned(settings: Parameters<typeof startScripted>[0] = {}): Promise<Owned> {
  const server = await startScripted({ ...settings, env: { MONOLITH_ACCOUNTS_SIGNUP: 'open', ...settings?.env } });
  const client = (): DashboardClient => dashboardClient(server.url);
  const owner = client();
  try {
    const { organization } = await owner.signUp({ email: 'owner@example.com' });
    return { server, owner, organization, client, close: async () => { await server.stop(); } };
  } catch (error) {
    await server.stop();
    throw error;
  }
}
