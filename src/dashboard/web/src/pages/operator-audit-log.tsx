// Changes to the server: users, operators, models, settings. Changes within an organization are in that organization's
// log.
import type { ReactNode } from 'react';
import { AuditDownload, AuditList, useAuditView } from '../audit/audit-list.js';
import { PageHeader } from '../components/page.js';

const PATH = '/operator/audit-log';

export function OperatorAuditLog(): ReactNode {
  const view = useAuditView();
  return (
    <>
      <PageHeader title="Server audit log" actions={<AuditDownload view={view} path={PATH} />}>
        Changes to users, operators, models and settings, newest first. Each organization has its own log on its page.
      </PageHeader>
      <AuditList view={view} queryKey={['operator', 'audit-log']} path={PATH} scope="server" />
    </>
  );
}
