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

/** `signUp` false: of a data folder where that has been done. */
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
