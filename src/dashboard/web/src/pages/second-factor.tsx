// Profile section that turns two-factor authentication (authenticator app and recovery codes) on or off.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { RecoveryCodes, SecondFactorProposal, SecondFactorState } from '../../../../shared/wire/users.js';
import { api } from '../api.js';
import { Badge } from '../components/badge.js';
import { Button } from '../components/button.js';
import { CopyButton } from '../components/copy.js';
import { Dialog } from '../components/dialog.js';
import { TextField } from '../components/field.js';
import { FormError, useAction } from '../components/form.js';
import { Panel, Time } from '../components/page.js';
import { QrCode } from '../components/qr-code.js';
import { Loaded, Notice } from '../components/states.js';
import { useToast } from '../components/toasts.js';
import { useMe, useSession } from '../session.js';

const KEY = ['second-factor'];

type Task = 'enable' | 'codes' | 'disable';

export function SecondFactor(): ReactNode {
  const { second_factor_missing: isMissing } = useMe();
  const { reload } = useSession();
  const client = useQueryClient();
  const query = useQuery({ queryKey: KEY, queryFn: () => api.get<SecondFactorState>('/second-factor') });
  const [task, setTask] = useState<Task | null>(null);
  const close = (): void => {
    setTask(null);
    void client.invalidateQueries({ queryKey: KEY });
    void client.invalidateQueries({ queryKey: ['sessions'] });
    void reload();
  };
  return (
    <Panel
      title="Two-factor authentication"
      lead="Sign-in requires a code from an authenticator app in addition to your password."
    >
      {isMissing && (
        <Notice tone="warn">
          Operators of this server must use two-factor authentication. The operator pages become available once you turn
          it on.
        </Notice>
      )}
      <Loaded query={query}>
        {(state) =>
          state.enabled ? (
            <Enabled state={state} onTask={setTask} />
          ) : (
            <div className="row">
              <Badge>Off</Badge>
              <Button variant="primary" onClick={() => setTask('enable')}>
                Turn on
              </Button>
            </div>
          )
        }
      </Loaded>
      {task === 'enable' && <EnableDialog onClose={close} />}
      {task === 'codes' && <CodesDialog onClose={close} />}
      {task === 'disable' && <DisableDialog onClose={close} />}
    </Panel>
  );
}

function Enabled({ state, onTask }: { state: SecondFactorState; onTask: (task: Task) => void }): ReactNode {
  const left = state.recovery_codes_left;
  return (
    <>
      <dl className="fact-list">
        <div>
          <dt>State</dt>
          <dd className="row">
            <Badge tone="ok" dot>
              On
            </Badge>{' '}
            <span>
              since <Time at={state.since} />
            </span>
          </dd>
        </div>
        <div>
          <dt>Recovery codes</dt>
          <dd className="row">
            {left} left {left < 3 && <Badge tone="warn">Create new ones</Badge>}
          </dd>
        </div>
      </dl>
      <div className="form-end">
        <Button onClick={() => onTask('codes')}>New recovery codes</Button>
        {!state.required && <Button onClick={() => onTask('disable')}>Turn off</Button>}
      </div>
      {state.required && (
        <p className="hint">
          Operators of this server must use two-factor authentication. To change devices, ask another operator to reset
          it.
        </p>
      )}
    </>
  );
}

/** Steps: the password; then the secret and a code generated from it; then the recovery codes, shown once. */
function EnableDialog({ onClose }: { onClose: () => void }): ReactNode {
  const action = useAction();
  const { user } = useMe();
  const [password, setPassword] = useState('');
  const [code, setCode] = useState('');
  const [proposal, setProposal] = useState<SecondFactorProposal | null>(null);
  const [recovery, setRecovery] = useState<string[] | null>(null);
  if (recovery !== null)
    return <RecoveryDialog title="Two-factor authentication is on" codes={recovery} onClose={onClose} />;
  const submit = (): void => {
    void action.run(async () => {
      if (proposal === null) setProposal(await api.post<SecondFactorProposal>('/second-factor/begin', { password }));
      else setRecovery((await api.post<RecoveryCodes>('/second-factor/enable', { code })).recovery_codes);
    });
  };
  return (
    <Dialog
      title="Turn on two-factor authentication"
      onClose={onClose}
      onSubmit={submit}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            type="submit"
            variant="primary"
            busy={action.busy}
            disabled={proposal === null ? password === '' && user.has_password : code.trim() === ''}
          >
            {proposal === null ? 'Continue' : 'Turn on'}
          </Button>
        </>
      }
    >
      {proposal === null ? (
        <>
          <input type="text" name="username" autoComplete="username" value={user.email} readOnly hidden />
          <p>You need an authenticator app such as Aegis, 2FAS, Google Authenticator, or a password manager.</p>
          {user.has_password && (
            <TextField
              label="Password"
              type="password"
              autoComplete="current-password"
              value={password}
              autoFocus
              onChange={(event) => setPassword(event.target.value)}
              error={action.errorOf('password')}
            />
          )}
        </>
      ) : (
        <>
          <p>Scan this code with the app, or type in the secret. Then enter the code that the app shows.</p>
          <QrCode text={proposal.uri} label="QR code of the secret" />
          <div className="secret">
            <code data-totp-secret>{proposal.secret.match(/.{1,4}/g)?.join(' ')}</code>
            <CopyButton text={proposal.secret} label="Copy the secret" iconOnly />
          </div>
          <TextField
            label="Code"
            inputMode="numeric"
            autoComplete="one-time-code"
            maxLength={12}
            value={code}
            autoFocus
            onChange={(event) => setCode(event.target.value)}
            error={action.errorOf('code')}
          />
        </>
      )}
      <FormError action={action} fields={['password', 'code']} />
    </Dialog>
  );
}

function RecoveryDialog({ title, codes, onClose }: { title: string; codes: string[]; onClose: () => void }): ReactNode {
  return (
    <Dialog
      title={title}
      sticky
      onClose={onClose}
      footer={
        <Button variant="primary" onClick={onClose}>
          I have saved them
        </Button>
      }
    >
      <p>
        Store these recovery codes separately from the device. If you cannot get a code from the app, you can sign in
        with one of them. Each works only once. They will not be shown again.
      </p>
      <ol className="recovery-codes">
        {codes.map((code) => (
          <li key={code}>
            <code>{code}</code>
          </li>
        ))}
      </ol>
      <div>
        <CopyButton text={codes.join('\n')} label="Copy all" />
      </div>
    </Dialog>
  );
}

function CodesDialog({ onClose }: { onClose: () => void }): ReactNode {
  const action = useAction();
  const [code, setCode] = useState('');
  const [recovery, setRecovery] = useState<string[] | null>(null);
  if (recovery !== null) return <RecoveryDialog title="New recovery codes" codes={recovery} onClose={onClose} />;
  const make = (): void => {
    void action.run(async () =>
      setRecovery((await api.post<RecoveryCodes>('/second-factor/recovery-codes', { code })).recovery_codes),
    );
  };
  return (
    <Dialog
      title="New recovery codes"
      onClose={onClose}
      onSubmit={make}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant="primary" busy={action.busy} disabled={code.trim() === ''}>
            Create new codes
          </Button>
        </>
      }
    >
      <p>Your current recovery codes will stop working.</p>
      <TextField
        label="Code"
        inputMode="numeric"
        autoComplete="one-time-code"
        maxLength={64}
        value={code}
        autoFocus
        onChange={(event) => setCode(event.target.value)}
        error={action.errorOf('code')}
        hint="From your authenticator app, or a recovery code."
      />
      <FormError action={action} fields={['code']} />
    </Dialog>
  );
}

function DisableDialog({ onClose }: { onClose: () => void }): ReactNode {
  const action = useAction();
  const toast = useToast();
  const { user } = useMe();
  const [password, setPassword] = useState('');
  const [code, setCode] = useState('');
  const disable = (): void => {
    void action.run(async () => {
      await api.post('/second-factor/disable', { password, code });
      toast('Two-factor authentication is off');
      onClose();
    });
  };
  return (
    <Dialog
      title="Turn off two-factor authentication?"
      onClose={onClose}
      onSubmit={disable}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            type="submit"
            variant="danger"
            busy={action.busy}
            disabled={(password === '' && user.has_password) || code.trim() === ''}
          >
            Turn off
          </Button>
        </>
      }
    >
      <p>After that, you will need only your password to sign in.</p>
      <input type="text" name="username" autoComplete="username" value={user.email} readOnly hidden />
      {user.has_password && (
        <TextField
          label="Password"
          type="password"
          autoComplete="current-password"
          value={password}
          autoFocus
          onChange={(event) => setPassword(event.target.value)}
          error={action.errorOf('password')}
        />
      )}
      <TextField
        label="Code"
        inputMode="numeric"
        autoComplete="one-time-code"
        maxLength={64}
        value={code}
        onChange={(event) => setCode(event.target.value)}
        error={action.errorOf('code')}
        hint="From your authenticator app, or a recovery code."
      />
      <FormError action={action} fields={['password', 'code']} />
    </Dialog>
  );
}
