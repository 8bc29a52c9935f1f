// Selects the current organization, or creates one.
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { OrganizationObject } from '../../../../shared/wire/organizations.js';
import { api, fieldError, messageOf } from '../api.js';
import { Button } from '../components/button.js';
import { Dialog } from '../components/dialog.js';
import { TextField } from '../components/field.js';
import { Icon } from '../components/icon.js';
import { Notice } from '../components/states.js';
import { useToast } from '../components/toasts.js';
import { useMe, useSession } from '../session.js';

const NEW = 'new';

export function OrganizationSwitcher(): ReactNode {
  const { organization, selectOrganization } = useSession();
  const { organizations } = useMe();
  const [creating, setCreating] = useState(false);
  return (
    <div className="switcher">
      {organizations.length === 0 ? (
        <Button size="small" onClick={() => setCreating(true)}>
          <Icon name="plus" /> New organization
        </Button>
      ) : (
        <label>
          <span className="visually-hidden">Organization</span>
          <select
            className="input select"
            value={organization?.id ?? ''}
            onChange={(event) =>
              event.target.value === NEW ? setCreating(true) : selectOrganization(event.target.value)
            }
          >
            {organizations.map(({ id, name, status }) => (
              <option key={id} value={id}>
                {name}
                {status === 'suspended' ? ' (suspended)' : ''}
              </option>
            ))}
            <option value={NEW}>New organization …</option>
          </select>
        </label>
      )}
      {creating && <NewOrganizationDialog onClose={() => setCreating(false)} />}
    </div>
  );
}

export function NewOrganizationDialog({ onClose }: { onClose: () => void }): ReactNode {
  const { reload, selectOrganization } = useSession();
  const toast = useToast();
  const [name, setName] = useState('');
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  const create = async (): Promise<void> => {
    setBusy(true);
    setFailure(null);
    try {
      const made = await api.post<OrganizationObject>('/organizations', { name });
      await reload();
      selectOrganization(made.id);
      toast(`${made.name} created`);
      onClose();
    } catch (error) {
      setFailure(error);
      setBusy(false);
    }
  };
  const nameError = fieldError(failure, 'name');
  return (
    <Dialog
      title="New organization"
      onClose={onClose}
      onSubmit={() => {
        void create();
      }}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant="primary" busy={busy}>
            Create organization
          </Button>
        </>
      }
    >
      <TextField
        label="Name"
        value={name}
        onChange={(event) => setName(event.target.value)}
        error={nameError}
        autoFocus
        maxLength={100}
        hint="The new organization has its own keys, members, limits and usage. You become its owner."
      />
      {failure !== null && nameError === null && <Notice tone="danger">{messageOf(failure)}</Notice>}
    </Dialog>
  );
}
