// Form submission: sends one request at a time, shows the server's message next to each invalid field, and focuses the
// first one.
import { useCallback, useEffect, useRef, useState } from 'react';
import type { FormEvent, ReactNode } from 'react';
import { fieldError, otherErrors } from '../api.js';
import { Notice } from './states.js';

export interface Action {
  busy: boolean;
  failure: unknown;
  /**
   * Runs `what` unless a submission is already in progress. Resolves to whether it succeeded. If it failed, the error
   * is kept for display.
   */
  run(what: () => Promise<unknown>): Promise<boolean>;
  /** The message of the last failure, if it is about this field. */
  errorOf(field: string): string | null;
  clear(): void;
}

export function useAction(): Action {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  const running = useRef(false);
  const run = useCallback(async (what: () => Promise<unknown>): Promise<boolean> => {
    if (running.current) return false;
    running.current = true;
    setBusy(true);
    setFailure(null);
    try {
      await what();
      return true;
    } catch (error) {
      setFailure(error);
      return false;
    } finally {
      running.current = false;
      setBusy(false);
    }
  }, []);
  // Focuses the invalid field once it has been marked as invalid.
  useEffect(() => {
    if (failure !== null)
      (document.querySelector('dialog[open]') ?? document).querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  }, [failure]);
  const errorOf = useCallback((field: string) => fieldError(failure, field), [failure]);
  const clear = useCallback(() => setFailure(null), []);
  return { busy, failure, run, errorOf, clear };
}

/** Shows the error messages that do not belong to a displayed field. */
export function FormError({ action, fields = [] }: { action: Action; fields?: readonly string[] }): ReactNode {
  if (action.failure === null) return null;
  const others = otherErrors(action.failure, fields);
  return others.length === 0 ? null : <Notice tone="danger">{others.join(' ')}</Notice>;
}

export function Form({
  onSubmit,
  children,
  label,
}: {
  onSubmit: () => void;
  children: ReactNode;
  label?: string;
}): ReactNode {
  return (
    <form
      className="form"
      noValidate
      aria-label={label}
      onSubmit={(event: FormEvent) => {
        event.preventDefault();
        onSubmit();
      }}
    >
      {children}
    </form>
  );
}
