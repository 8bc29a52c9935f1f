// Changes made in the organization.
import type { ReactNode } from 'react';
import { AuditDownload, AuditList, useAuditView } from '../audit/audit-list.js';
import { PageHeader } from '../components/page.js';
import { useOrganization } from '../session.js';

export function AuditLog(): ReactNode {
  const { id, path } = useOrganization();
  const view = useAuditView();
  return (
    <>
      <PageHeader title="Audit log" actions={<AuditDownload view={view} path={`${path}/audit-log`} />}>
        All changes made in this organization, newest first.
      </PageHeader>
      <AuditList
        view={view}
        queryKey={['organization', id, 'audit-log']}
        path={`${path}/audit-log`}
        scope="organization"
      />
    </>
  );
}
