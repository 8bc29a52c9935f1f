// What several pages ask for.
import { useQuery } from '@tanstack/react-query';
import type { UseQueryResult } from '@tanstack/react-query';
import type { DashboardModel, InvitePreview, ListPage } from '../../../shared/wire/dashboard.js';
import { api } from './api.js';
import { useOrganization } from './session.js';

/** What the organization can ask for, highest tier first. */
export function useModels(): UseQueryResult<DashboardModel[]> {
  const { id, path } = useOrganization();
  return useQuery({
    queryKey: ['organization', id, 'models'],
    queryFn: async ({ signal }) => (await api.get<ListPage<DashboardModel>>(`${path}/models`, {}, signal)).data,
    // A model that loads is looked at until it has.
    refetchInterval: ({ state }) => (state.data?.some((model) => model.state === 'loading') ? 2_000 : false),
  });
}

/** What an invitation's link is for; null: there is none. */
export function useInvite(token: string | null): UseQueryResult<InvitePreview> {
  return useQuery({
    queryKey: ['invite', token],
    queryFn: ({ signal }) => api.get<InvitePreview>(`/invites/${encodeURIComponent(token ?? '')}`, {}, signal),
    enabled: token !== null,
  });
}
