// A scripted server whose dashboard has its first user, an operator who owns an organization.

import { dashboardClient, type DashboardClient } from './dashboard-client.js';
import { startScripted } from './script-model.js';
import type { Monolith } from '../e2e/monolith.js';

export interface Owned {
  server: Monolith;
  owner: DashboardClient;
  organization: { id: string; name: string };
  /** Returns a client that is not signed in. */
  client(): DashboardClient;
  close(): Promise<void>;
}

/** Set `signUp` to false for a data directory in which the first user has already signed up. */
export async function openOwned({
  signUp = true,
  ...settings
}: NonNullable<Parameters<typeof startScripted>[0]> & { signUp?: boolean } = {}): Promise<Owned> {
  const server = await startScripted({ ...settings, env: { MONOLITH_ACCOUNTS_SIGNUP: 'open', ...settings.env } });
  const client = (): DashboardClient => dashboardClient(server.url);
  const owner = client();
  try {
    if (!signUp) await owner.login('owner@example.com');
    const organization = signUp
      ? (await owner.signUp({ email: 'owner@example.com' })).organization
      : (await owner.get<{ data: [Owned['organization']] }>('/organizations')).data[0];
    return {
      server,
      owner,
      organization,
      client,
      close: async () => {
        await server.stop();
      },
    };
  } catch (error) {
    await server.stop();
    throw error;
  }
}
