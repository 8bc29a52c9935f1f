// Organization settings: rename and delete.
import { useState } from 'react';
import type { ReactNode } from 'react';
import { useLocation } from 'wouter';
import { api } from '../api.js';
import { Badge } from '../components/badge.js';
import { Button, LinkButton } from '../components/button.js';
import { CopyButton } from '../components/copy.js';
import { ConfirmDialog } from '../components/dialog.js';
import { TextField } from '../components/field.js';
import { Form, FormError, useAction } from '../components/form.js';
import { Code, PageHeader, Panel } from '../components/page.js';
import { useToast } from '../components/toasts.js';
import { DashboardAddressesSetting } from './dashboard-addresses-setting.js';
import { RequestTextSetting } from './request-text-setting.js';
import { roleLabel } from '../roles.js';
import { useOrganization, useSession } from '../session.js';

export function Settings(): ReactNode {
  const { id, name, path, role, status, may } = useOrganization();
  const { reload } = useSession();
  const toast = useToast();
  const [, navigate] = useLocation();
  const action = useAction();
  const [wanted, setWanted] = useState(name);
  const [deleting, setDeleting] = useState(false);
  const rename = (): void => {
    void action.run(async () => {
      await api.patch(path, { name: wanted });
      await reload();
      toast('Organization renamed');
    });
  };
  const remove = async (): Promise<void> => {
    await api.delete(path);
    await reload();
    toast(`${name} deleted`);
    navigate('/');
  };
  return (
    <>
      <PageHeader title="Settings">{name}</PageHeader>
      <Panel title="Organization">
        {may('admin') ? (
          <Form onSubmit={rename}>
            <div className="narrow">
              <TextField
                label="Name"
                value={wanted}
                maxLength={100}
                onChange={(event) => setWanted(event.target.value)}
                error={action.errorOf('name')}
              />
            </div>
            <FormError action={action} fields={['name']} />
            <div className="form-end">
              <Button
                type="submit"
                variant="primary"
                busy={action.busy}
                disabled={wanted.trim() === name || status === 'suspended'}
              >
                Rename
              </Button>
            </div>
          </Form>
        ) : (
          <p className="muted">Admins and owners can rename the organization.</p>
        )}
        <dl className="fact-list">
          <div>
            <dt>ID</dt>
            <dd className="row tight">
              <Code>{id}</Code>
              <CopyButton text={id} label="Copy ID" iconOnly />
            </dd>
          </div>
          <div>
            <dt>Status</dt>
            <dd>
              {status === 'active' ? (
                <Badge tone="ok" dot>
                  Active
                </Badge>
              ) : (
                <Badge tone="danger" dot>
                  Suspended
                </Badge>
              )}
            </dd>
          </div>
          <div>
            <dt>Your role</dt>
            <dd>{roleLabel(role)}</dd>
          </div>
        </dl>
        <div>
          <LinkButton href="/limits" size="small">
            Limits
          </LinkButton>
        </div>
      </Panel>
      {may('admin') && <RequestTextSetting />}
      {may('admin') && <DashboardAddressesSetting />}
      {may('owner') && (
        <Panel
          title="Delete the organization"
          lead="All its API keys are revoked immediately, its stored responses are erased, and its members lose access. This cannot be undone."
        >
          <div>
            <Button variant="danger" disabled={status === 'suspended'} onClick={() => setDeleting(true)}>
              Delete organization …
            </Button>
          </div>
        </Panel>
      )}
      {deleting && (
        <ConfirmDialog
          title={`Delete ${name}?`}
          confirm="Delete organization"
          danger
          phrase={name}
          onConfirm={remove}
          onClose={() => setDeleting(false)}
        >
          <p>Programs that use its keys will stop working within seconds.</p>
        </ConfirmDialog>
      )}
    </>
  );
}
