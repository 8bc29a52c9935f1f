// Notice on every page of an organization: which requests are refused because a budget is spent.
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import type { StoppedBudgets } from '../../../../shared/wire/usage.js';
import { api } from '../api.js';
import { Notice } from '../components/states.js';
import { plural } from '../format.js';
import { atLeast } from '../roles.js';
import { useMe, useSession } from '../session.js';
import { money } from '../usage-data.js';

export function BudgetNotice(): ReactNode {
  const { organization } = useSession();
  const { user } = useMe();
  const id = organization?.id ?? '';
  const { data } = useQuery({
    queryKey: ['organization', id, 'budgets', 'stopped'],
    queryFn: ({ signal }) => api.get<StoppedBudgets>(`/organizations/${id}/budgets/stopped`, {}, signal),
    enabled: organization !== null,
    refetchInterval: 30_000,
  });
  if (organization === null || data === undefined || data.data.length === 0) return null;
  const text = textOf(data, user.id, atLeast(organization.role, 'admin'));
  return text === null ? null : (
    <Notice tone="danger">
      {text} <Link href="/usage">See the budgets</Link>
    </Notice>
  );
}

function textOf({ data, currency, month }: StoppedBudgets, userId: string, isAdmin: boolean): string | null {
  const all = data.find(({ scope }) => scope === 'organization');
  const until = 'until next month (UTC) or until the budget is raised';
  if (all !== undefined)
    return `All requests are refused ${until}: the organization has spent its budget of ${money(all.amount, currency)} for ${month}.`;
  const own = data.find(({ scope, id }) => scope === 'member' && id === userId);
  if (own !== undefined)
    return `Your requests are refused ${until}: you have spent your budget of ${money(own.amount, currency)} for ${month}.`;
  if (!isAdmin) return null;
  const count = (scope: string): number => data.filter((one) => one.scope === scope).length;
  const who = [
    ...(count('member') > 0 ? [plural(count('member'), 'member')] : []),
    ...(count('key') > 0 ? [plural(count('key'), 'API key')] : []),
  ].join(' and ');
  return `Requests from ${who} are refused, because their budget for ${month} is spent.`;
}
