// Shown on every page of a suspended organization.
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { useMe, useSession } from '../session.js';
import { Notice } from './states.js';

export function SuspendedNotice(): ReactNode {
  const { organization } = useSession();
  const { user } = useMe();
  if (organization?.status !== 'suspended') return null;
  return (
    <Notice tone="warn">
      <strong>{organization.name} is suspended.</strong> Requests with its keys return 403, and its data is read-only.{' '}
      {user.operator ? (
        <Link href={`/operator/organizations?org=${organization.id}`}>Resume it</Link>
      ) : (
        'Contact the operator of this server.'
      )}
    </Notice>
  );
}
