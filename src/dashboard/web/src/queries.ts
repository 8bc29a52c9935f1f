// Queries shared by several pages.
import { useQuery } from '@tanstack/react-query';
import type { UseQueryResult } from '@tanstack/react-query';
import type { ListPage } from '../../../shared/wire/list.js';
import type { DashboardModel } from '../../../shared/wire/models.js';
import type { InvitePreview, ServiceAccountObject } from '../../../shared/wire/organizations.js';
import { api } from './api.js';
import { useOrganization } from './session.js';

/** Models that the organization can use, highest tier first. */
export function useModels(): UseQueryResult<DashboardModel[]> {
  const { id, path } = useOrganization();
  return useQuery({
    queryKey: ['organization', id, 'models'],
    queryFn: async ({ signal }) => (await api.get<ListPage<DashboardModel>>(`${path}/models`, {}, signal)).data,
    // Polls while a model is loading.
    refetchInterval: ({ state }) => (state.data?.some((model) => model.state === 'loading') ? 2_000 : false),
  });
}

const PAGE = 100;

/** All service accounts of the organization, oldest first. */
export function useServiceAccounts(): UseQueryResult<ServiceAccountObject[]> {
  const { id, path } = useOrganization();
  return useQuery({
    queryKey: ['organization', id, 'service-accounts', 'all'],
    queryFn: async ({ signal }) => {
      const all: ServiceAccountObject[] = [];
      for (let after: string | null = null; ; ) {
        const page: ListPage<ServiceAccountObject> = await api.get(
          `${path}/service-accounts`,
          { limit: PAGE, after },
          signal,
        );
        all.push(...page.data);
        if (!page.has_more) return all;
        after = page.next;
      }
    },
  });
}

/** The link's invitation; null if the page has no invitation token. */
export function useInvite(token: string | null): UseQueryResult<InvitePreview> {
  return useQuery({
    queryKey: ['invite', token],
    queryFn: ({ signal }) => api.get<InvitePreview>(`/invites/${encodeURIComponent(token ?? '')}`, {}, signal),
    enabled: token !== null,
  });
}
