// The command palette's entries for the signed-in user. Lists are fetched when the palette opens.
import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { useLocation } from 'wouter';
import type { ApiKeyObject } from '../../../../shared/wire/api-keys.js';
import type { ListPage } from '../../../../shared/wire/list.js';
import type { DashboardModel } from '../../../../shared/wire/models.js';
import type { OperatorOrganization } from '../../../../shared/wire/organizations.js';
import { api } from '../api.js';
import { keyHint } from '../format.js';
import { NAVIGATION } from '../navigation.js';
import { atLeast } from '../roles.js';
import { useMe, useSession } from '../session.js';
import { isRequestId } from './find.js';
import type { PaletteItem } from './find.js';

/** Maximum number of keys and organizations that are searched. */
const LIMIT = 100;

export function usePaletteItems(text: string): { items: PaletteItem[]; loading: boolean } {
  const { organization, selectOrganization } = useSession();
  const { user, organizations, second_factor_missing: isMissing } = useMe();
  const [, navigate] = useLocation();
  const isOperator = user.operator && !isMissing;
  const path = `/organizations/${organization?.id ?? ''}`;
  const models = useQuery({
    queryKey: ['organization', organization?.id, 'models'],
    queryFn: async ({ signal }) => (await api.get<ListPage<DashboardModel>>(`${path}/models`, {}, signal)).data,
    enabled: organization !== null,
  });
  const keys = useQuery({
    queryKey: ['organization', organization?.id, 'api-keys', 'palette'],
    queryFn: async ({ signal }) =>
      (await api.get<ListPage<ApiKeyObject>>(`${path}/api-keys`, { limit: LIMIT }, signal)).data,
    enabled: organization !== null,
  });
  const all = useQuery({
    queryKey: ['operator', 'organizations', 'palette'],
    queryFn: async ({ signal }) =>
      (await api.get<ListPage<OperatorOrganization>>('/operator/organizations', { limit: LIMIT }, signal)).data,
    enabled: isOperator,
  });

  const items = useMemo((): PaletteItem[] => {
    const go = (to: string) => (): void => navigate(to);
    const pages = NAVIGATION.filter(({ operator }) => operator !== true || isOperator).flatMap(
      ({ operator, label: group, items: own }) =>
        own
          .filter(
            ({ role }) =>
              operator === true || (organization !== null && (role === undefined || atLeast(organization.role, role))),
          )
          .map(({ path: to, label, words = '' }) => ({
            id: `page ${to}`,
            group: operator === true ? 'Operator pages' : 'Pages',
            label,
            words: `${words} ${group}`,
            isFirst: true,
            run: go(to),
          })),
    );
    const actions: PaletteItem[] = [
      {
        id: 'profile',
        group: 'Pages',
        label: 'Profile',
        words: 'password two-factor sessions account',
        run: go('/profile'),
      },
      ...(organization !== null && organization.status === 'active' && atLeast(organization.role, 'developer')
        ? [
            {
              id: 'create key',
              group: 'Actions',
              label: 'Create API key',
              words: 'new',
              isFirst: true,
              run: go('/keys?create'),
            },
          ]
        : []),
      ...organizations
        .filter(({ id }) => id !== organization?.id)
        .map(({ id, name }) => ({
          id: `switch ${id}`,
          group: 'Actions',
          label: `Switch to ${name}`,
          words: 'organization',
          run: () => {
            selectOrganization(id);
            navigate('/');
          },
        })),
    ];
    const id = text.trim();
    const requests: PaletteItem[] = !isRequestId(id)
      ? []
      : [
          ...(organization === null
            ? []
            : [
                {
                  id: 'request',
                  group: 'Requests',
                  label: `Open request ${id}`,
                  hint: organization.name,
                  run: go(`/requests?request_id=${encodeURIComponent(id)}`),
                },
              ]),
          ...(isOperator
            ? [
                {
                  id: 'any request',
                  group: 'Requests',
                  label: `Open request ${id}`,
                  hint: 'all organizations',
                  run: go(`/operator/requests?request_id=${encodeURIComponent(id)}`),
                },
              ]
            : []),
        ];
    return [
      ...requests,
      ...pages,
      ...actions,
      ...(models.data ?? []).map(({ id: model, display_name: name }) => ({
        id: `model ${model}`,
        group: 'Models',
        label: name,
        ...(name === model ? {} : { hint: model }),
        words: 'model',
        run: go(`/models?model=${encodeURIComponent(model)}`),
      })),
      ...(keys.data ?? []).map((key) => ({
        id: `key ${key.id}`,
        group: 'API keys',
        label: key.name,
        hint: key.status === 'active' ? keyHint(key) : `${keyHint(key)}, ${key.status}`,
        words: `key ${key.id}`,
        run: go(`/keys?key=${encodeURIComponent(key.id)}`),
      })),
      ...(all.data ?? []).map(({ id: one, name, status }) => ({
        id: `organization ${one}`,
        group: 'Organizations',
        label: name,
        hint: status === 'active' ? one : `${one}, suspended`,
        words: 'organization',
        run: go(`/operator/organizations?org=${encodeURIComponent(one)}`),
      })),
    ];
  }, [text, organization, organizations, isOperator, models.data, keys.data, all.data, navigate, selectOrganization]);
  return { items, loading: models.isLoading || keys.isLoading || all.isLoading };
}
