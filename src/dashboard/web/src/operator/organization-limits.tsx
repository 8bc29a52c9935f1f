// An organization's limits per model, and its tokens per month.
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { OperatorOrganization, OperatorOrganizationPatch } from '../../../../shared/wire/organizations.js';
import { messageOf } from '../api.js';
import { Button } from '../components/button.js';
import { Checkbox, TextField } from '../components/field.js';
import { Panel } from '../components/page.js';
import { Notice } from '../components/states.js';
import { useToast } from '../components/toasts.js';
import { count } from '../format.js';
import { draftsOf, LIMIT_KINDS, limitProblem, overridesOf } from './limit-drafts.js';
import type { LimitDraft, LimitKind } from './limit-drafts.js';

interface Props {
  organization: OperatorOrganization;
  onChange: (patch: OperatorOrganizationPatch) => Promise<OperatorOrganization>;
}

const capText = ({ monthly_token_cap: cap }: OperatorOrganization): string => (cap === null ? '' : String(cap));

export function OrganizationLimits({ organization, onChange }: Props): ReactNode {
  const { limits, overrides } = organization;
  const names = ['*', ...Object.keys(limits)];
  const [drafts, setDrafts] = useState(() => draftsOf(overrides, names));
  const [cap, setCap] = useState(() => capText(organization));
  const [state, setState] = useState<{ busy: boolean; failure: string | null }>({ busy: false, failure: null });
  const toast = useToast();

  const next = overridesOf(drafts);
  const capValue = cap.trim() === '' ? null : Number(cap.replaceAll(/[,_\s]/g, ''));
  const capProblem =
    capValue === null || (Number.isSafeInteger(capValue) && capValue >= 0) ? null : 'Must be a whole number.';
  const changed =
    capValue !== organization.monthly_token_cap ||
    JSON.stringify(next) !== JSON.stringify(overridesOf(draftsOf(overrides, names)));
  const save = (): void => {
    if (next === null || capProblem !== null || state.busy) return;
    setState({ busy: true, failure: null });
    onChange({ limits: next, monthly_token_cap: capValue }).then(
      (now) => {
        setDrafts(draftsOf(now.overrides, names));
        setState({ busy: false, failure: null });
        toast(`Limits of ${organization.name} saved`);
      },
      (error: unknown) => setState({ busy: false, failure: messageOf(error) }),
    );
  };
  const discard = (): void => {
    setDrafts(draftsOf(overrides, names));
    setCap(capText(organization));
  };
  const set = (name: string, kind: LimitKind, draft: LimitDraft): void =>
    setDrafts({ ...drafts, [name]: { ...drafts[name]!, [kind]: draft } });
  return (
    <Panel
      title="Limits"
      lead="An empty field inherits its value from the row for all models, then from the server's settings. Changes take effect immediately."
    >
      <form
        className="stack"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          save();
        }}
      >
        <div>
          {names.map((name) => (
            <div key={name} className="limit-grid" role="group" aria-label={name === '*' ? 'All models' : name}>
              <h3>{name === '*' ? 'All models' : name}</h3>
              {LIMIT_KINDS.map(({ kind, label }) => {
                const draft = drafts[name]![kind];
                const inherited = overrides[name]?.[kind] === undefined ? limits[name]?.[kind] : undefined;
                return (
                  <div key={kind} className="limit-cell">
                    <TextField
                      label={label}
                      inputMode="numeric"
                      autoComplete="off"
                      value={draft.off ? '' : draft.text}
                      disabled={draft.off}
                      error={limitProblem(draft)}
                      placeholder={
                        draft.off
                          ? 'no limit'
                          : inherited === undefined
                            ? name === '*'
                              ? 'server default'
                              : 'same as all models'
                            : inherited === null
                              ? 'no limit'
                              : count(inherited)
                      }
                      onChange={(event) => set(name, kind, { ...draft, text: event.target.value })}
                    />
                    <Checkbox
                      label="No limit"
                      aria-label={`No limit: ${label}`}
                      checked={draft.off}
                      onChange={(event) => set(name, kind, { ...draft, off: event.target.checked })}
                    />
                  </div>
                );
              })}
            </div>
          ))}
        </div>
        <div className="limits-cap">
          <TextField
            label="Tokens per calendar month"
            optional
            inputMode="numeric"
            autoComplete="off"
            value={cap}
            placeholder="no cap"
            error={capProblem}
            hint={`${count(organization.month_tokens)} used this month. Requests over the cap return 429 insufficient_quota.`}
            onChange={(event) => setCap(event.target.value)}
          />
        </div>
        {state.failure !== null && <Notice tone="danger">{state.failure}</Notice>}
        <div className="form-end">
          <Button
            type="submit"
            variant="primary"
            disabled={!changed || next === null || capProblem !== null}
            busy={state.busy}
          >
            Save limits
          </Button>
          {changed && <Button onClick={discard}>Discard changes</Button>}
        </div>
      </form>
    </Panel>
  );
}
