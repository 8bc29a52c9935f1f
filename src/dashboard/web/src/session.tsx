// The signed-in user and the current organization. One query fetches the server's status and, if there is a session,
// the user.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { createContext, useCallback, useContext, useEffect, useMemo, useState } from 'react';
import type { ReactNode } from 'react';
import type { Role } from '../../../shared/wire/organizations.js';
import type { DashboardStatus, Me } from '../../../shared/wire/users.js';
import { api, onSession, setCsrfToken } from './api.js';
import { ErrorState } from './components/states.js';
import { clearHistory } from './playground/history.js';
import { atLeast } from './roles.js';

const ORGANIZATION = 'monolith.organization';

export interface SessionState {
  status: DashboardStatus;
  me: Me | null;
}

async function loadSession(): Promise<SessionState> {
  const status = await api.get<DashboardStatus>('/status');
  const me = status.signed_in ? await api.get<Me>('/me') : null;
  setCsrfToken(me?.csrf_token ?? '');
  return { status, me };
}

export type Organization = Me['organizations'][number];

interface Session extends SessionState {
  organization: Organization | null;
  selectOrganization(id: string): void;
  /**
   * Must be called after sign-in, sign-out or a change to the profile or the organizations. Resolves when the page has
   * the new data.
   */
  reload(): Promise<void>;
  /** Ends this session. */
  signOut(): Promise<void>;
}

const Context = createContext<Session | null>(null);

function stored(): string | null {
  try {
    return sessionStorage.getItem(ORGANIZATION) ?? localStorage.getItem(ORGANIZATION);
  } catch {
    return null;
  }
}

export function SessionProvider({ children }: { children: ReactNode }): ReactNode {
  const client = useQueryClient();
  const query = useQuery({ queryKey: ['session'], queryFn: loadSession, staleTime: 60_000 });
  const [chosen, setChosen] = useState<string | null>(stored);

  const reload = useCallback(async () => {
    await client.refetchQueries({ queryKey: ['session'] });
  }, [client]);
  useEffect(() => {
    onSession(
      () => {
        client.setQueryData<SessionState>(['session'], (old) =>
          old === undefined ? old : { status: { ...old.status, signed_in: false }, me: null },
        );
      },
      async () => {
        await loadSession();
      },
    );
  }, [client]);

  // Data fetched for one user must not be visible to the next one, however the session ended.
  const userId = query.data?.me?.user.id ?? null;
  useEffect(
    () =>
      userId === null
        ? undefined
        : () => client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'session' }),
    [client, userId],
  );

  const value = useMemo<Session | null>(() => {
    if (query.data === undefined) return null;
    const { status, me } = query.data;
    const organization = me?.organizations.find(({ id }) => id === chosen) ?? me?.organizations[0] ?? null;
    return {
      status,
      me,
      organization,
      reload,
      selectOrganization: (id) => {
        setChosen(id);
        try {
          sessionStorage.setItem(ORGANIZATION, id); // for this tab, and as the initial value for new tabs
          localStorage.setItem(ORGANIZATION, id);
        } catch {
          // storage is unavailable, so the choice is kept only for this visit
        }
      },
      signOut: async () => {
        await api.post('/logout');
        clearHistory(localStorage);
        await reload();
      },
    };
  }, [query.data, chosen, client, reload]);

  if (value !== null) return <Context value={value}>{children}</Context>;
  if (query.isError)
    return (
      <main className="alone">
        <ErrorState
          error={query.error}
          onRetry={() => {
            void query.refetch();
          }}
        />
      </main>
    );
  return (
    <main className="alone" aria-busy="true">
      <span className="visually-hidden">Loading</span>
    </main>
  );
}

export function useSession(): Session {
  const session = useContext(Context);
  if (session === null) throw new Error('useSession outside SessionProvider');
  return session;
}

/** The signed-in user. For pages that require a session. */
export function useMe(): Me {
  const { me } = useSession();
  if (me === null) throw new Error('useMe without a session');
  return me;
}

/**
 * The current organization, its API path, and the permissions of the user's role. For pages that require an
 * organization.
 */
export function useOrganization(): Organization & { path: string; may(least: Role): boolean } {
  const { organization } = useSession();
  if (organization === null) throw new Error('useOrganization without an organization');
  return useMemo(
    () => ({
      ...organization,
      path: `/organizations/${organization.id}`,
      may: (least: Role) => atLeast(organization.role, least),
    }),
    [organization],
  );
}
