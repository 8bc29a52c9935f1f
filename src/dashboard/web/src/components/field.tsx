// Form fields: label, control, hint and error message, linked for screen readers.
import { useId, useState } from 'react';
import type { InputHTMLAttributes, ReactNode, Ref, SelectHTMLAttributes, TextareaHTMLAttributes } from 'react';

export interface ControlIds {
  id: string;
  'aria-describedby': string | undefined;
  'aria-invalid': true | undefined;
}

interface FieldFrame {
  label: string;
  hint?: ReactNode;
  error?: string | null | undefined;
  optional?: boolean;
  /** Shows the label to screen readers only. */
  hideLabel?: boolean;
}

/**
 * The error as a sentence. A server message about a field starts in lower case ("must be …"), and the field's label
 * becomes its subject, without the unit in parentheses.
 */
export function errorSentence(label: string, error: string): string {
  return /^[a-z]/.test(error) ? `${label.replace(/ \(.*\)$/, '')} ${error}` : error;
}

/** Frame for any control. `children` receives the IDs to set on the control. */
export function Field({
  label,
  hint,
  error,
  optional = false,
  hideLabel = false,
  children,
}: FieldFrame & { children: (ids: ControlIds) => ReactNode }): ReactNode {
  const id = useId();
  const described = [hint === undefined ? null : `${id}-hint`, error ? `${id}-error` : null]
    .filter((one) => one !== null)
    .join(' ');
  return (
    <div className="field">
      <label htmlFor={id} className={hideLabel ? 'visually-hidden' : undefined}>
        {label}
        {optional && <span className="optional"> optional</span>}
      </label>
      {children({
        id,
        'aria-describedby': described === '' ? undefined : described,
        'aria-invalid': error ? true : undefined,
      })}
      {error && (
        <p className="field-error" id={`${id}-error`}>
          {errorSentence(label, error)}
        </p>
      )}
      {hint !== undefined && (
        <p className="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  );
}

export function TextField({
  label,
  hint,
  error,
  optional,
  hideLabel,
  ref,
  ...rest
}: FieldFrame & InputHTMLAttributes<HTMLInputElement> & { ref?: Ref<HTMLInputElement> }): ReactNode {
  const current = useCurrentError(error, rest.value);
  return (
    <Field {...frame({ label, hint, error: current, optional, hideLabel })}>
      {(ids) => <input type="text" {...rest} {...ids} ref={ref} className={`input ${rest.className ?? ''}`} />}
    </Field>
  );
}

export function TextArea({
  label,
  hint,
  error,
  optional,
  hideLabel,
  ref,
  ...rest
}: FieldFrame & TextareaHTMLAttributes<HTMLTextAreaElement> & { ref?: Ref<HTMLTextAreaElement> }): ReactNode {
  const current = useCurrentError(error, rest.value);
  return (
    <Field {...frame({ label, hint, error: current, optional, hideLabel })}>
      {(ids) => <textarea rows={3} {...rest} {...ids} ref={ref} className={`input ${rest.className ?? ''}`} />}
    </Field>
  );
}

export function Select({
  label,
  hint,
  error,
  optional,
  hideLabel,
  options,
  children,
  ...rest
}: FieldFrame &
  SelectHTMLAttributes<HTMLSelectElement> & { options?: readonly { value: string; label: string }[] }): ReactNode {
  return (
    <Field {...frame({ label, hint, error, optional, hideLabel })}>
      {(ids) => (
        <select {...rest} {...ids} className={`input select ${rest.className ?? ''}`}>
          {options?.map(({ value, label: text }) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
          {children}
        </select>
      )}
    </Field>
  );
}

export function Checkbox({
  label,
  hint,
  ...rest
}: { label: ReactNode; hint?: ReactNode } & InputHTMLAttributes<HTMLInputElement>): ReactNode {
  const id = useId();
  return (
    <div className="check">
      <input type="checkbox" {...rest} id={id} aria-describedby={hint === undefined ? undefined : `${id}-hint`} />
      <label htmlFor={id}>{label}</label>
      {hint !== undefined && (
        <p className="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  );
}

export function Radio({
  label,
  hint,
  ...rest
}: { label: ReactNode; hint?: ReactNode } & InputHTMLAttributes<HTMLInputElement>): ReactNode {
  const id = useId();
  return (
    <div className="check">
      <input type="radio" {...rest} id={id} aria-describedby={hint === undefined ? undefined : `${id}-hint`} />
      <label htmlFor={id}>{label}</label>
      {hint !== undefined && (
        <p className="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  );
}

/** A group of related controls with one legend. */
export function FieldSet({
  legend,
  hint,
  error,
  children,
}: {
  legend: string;
  hint?: ReactNode;
  error?: string | null;
  children: ReactNode;
}): ReactNode {
  return (
    <fieldset className="fieldset">
      <legend>{legend}</legend>
      {hint !== undefined && <p className="hint">{hint}</p>}
      {children}
      {error && (
        <p className="field-error" role="alert">
          {errorSentence(legend, error)}
        </p>
      )}
    </fieldset>
  );
}

/** The server's error for the field, shown until the user changes the value. */
function useCurrentError(error: string | null | undefined, value: unknown): string | null {
  const [about, setAbout] = useState({ error: error ?? null, value });
  if (about.error !== (error ?? null)) setAbout({ error: error ?? null, value });
  return about.value === value ? (error ?? null) : null;
}

// Drops undefined properties, so that `hint={undefined}` means no hint.
function frame(given: {
  label: string;
  hint: ReactNode;
  error: string | null | undefined;
  optional: boolean | undefined;
  hideLabel: boolean | undefined;
}): FieldFrame {
  const { label, hint, error, optional, hideLabel } = given;
  return {
    label,
    error,
    ...(hint === undefined ? {} : { hint }),
    ...(optional === undefined ? {} : { optional }),
    ...(hideLabel === undefined ? {} : { hideLabel }),
  };
}
