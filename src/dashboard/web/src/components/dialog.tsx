// Dialogs based on the native <dialog> element: the browser keeps the focus inside and closes the dialog on Escape.
// When a dialog opens, its first field gets the focus. When it closes, the focus returns to the previous element.
import { useEffect, useId, useRef, useState } from 'react';
import type { FormEvent, ReactNode } from 'react';
import { messageOf } from '../api.js';
import { Button } from './button.js';
import { Icon } from './icon.js';
import { Notice } from './states.js';

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ReactNode;
  /** Buttons at the bottom of the dialog. */
  footer?: ReactNode;
  size?: 'normal' | 'wide';
  /** Escape and clicks outside do not close the dialog. Used for content that is shown only once. */
  sticky?: boolean;
  /** Makes the body a form, which the submit button in the footer submits. */
  onSubmit?: () => void;
  className?: string;
}

/** The dialog is open for as long as it is rendered: `{open && <Dialog …>}`. */
export function Dialog({
  title,
  onClose,
  children,
  footer,
  size = 'normal',
  sticky = false,
  onSubmit,
  className = '',
}: DialogProps): ReactNode {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current;
    if (dialog === null || dialog.open) return undefined;
    const before = document.activeElement;
    dialog.showModal();
    firstControl(dialog)?.focus();
    return () => {
      dialog.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const content = (
    <>
      <header className="dialog-head">
        <h2 id={id}>{title}</h2>
        {!sticky && (
          <button type="button" className="icon-button" aria-label="Close" onClick={onClose}>
            <Icon name="close" />
          </button>
        )}
      </header>
      <div className="dialog-body">{children}</div>
      {footer !== undefined && <footer className="dialog-foot">{footer}</footer>}
    </>
  );
  return (
    <dialog
      ref={ref}
      className={`dialog ${size} ${className}`}
      aria-labelledby={id}
      onKeyDown={(event) => {
        if (sticky && event.key === 'Escape') event.preventDefault();
      }}
      onCancel={(event) => {
        event.preventDefault();
        if (!sticky) onClose();
      }}
      // Browsers close the dialog on a second Escape anyway.
      onClose={() => {
        const dialog = ref.current;
        if (dialog === null || dialog.open) return;
        if (sticky) dialog.showModal();
        else onClose();
      }}
      onMouseDown={(event) => {
        if (!sticky && event.target === event.currentTarget) onClose();
      }}
    >
      {onSubmit === undefined ? (
        <div className="dialog-frame">{content}</div>
      ) : (
        <form
          className="dialog-frame"
          noValidate
          onSubmit={(event: FormEvent) => {
            event.preventDefault();
            onSubmit();
          }}
        >
          {content}
        </form>
      )}
    </dialog>
  );
}

/**
 * The control that gets the focus when a dialog opens: the first field (in a group of radio buttons, the checked
 * option) or, if there are no fields, the footer's first button. By default, the browser would focus the close button.
 */
function firstControl(dialog: HTMLDialogElement): HTMLElement | null {
  const field = dialog.querySelector<HTMLInputElement>(
    ['input', 'select', 'textarea'].map((name) => `.dialog-body ${name}:not(:disabled)`).join(),
  );
  if (field === null) return dialog.querySelector<HTMLElement>('.dialog-foot button');
  if (field.type !== 'radio') return field;
  return dialog.querySelector<HTMLElement>(`input[name="${CSS.escape(field.name)}"]:checked`) ?? field;
}

interface ConfirmProps {
  title: string;
  children: ReactNode;
  confirm: string;
  danger?: boolean;
  /** Text that the user must type to confirm. */
  phrase?: string;
  onConfirm: () => Promise<unknown>;
  onClose: () => void;
}

/** Asks for confirmation of an irreversible action. If the action fails, the dialog stays open and shows the reason. */
export function ConfirmDialog({
  title,
  children,
  confirm,
  danger = false,
  phrase,
  onConfirm,
  onClose,
}: ConfirmProps): ReactNode {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  const [typed, setTyped] = useState('');
  const id = useId();
  const ready = phrase === undefined || typed.trim() === phrase;
  const run = (): void => {
    if (!ready || busy) return;
    setBusy(true);
    setFailure(null);
    onConfirm().then(onClose, (error: unknown) => {
      setFailure(error);
      setBusy(false);
    });
  };
  return (
    <Dialog
      title={title}
      onClose={onClose}
      onSubmit={run}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant={danger ? 'danger' : 'primary'} busy={busy} disabled={!ready}>
            {confirm}
          </Button>
        </>
      }
    >
      {children}
      {phrase !== undefined && (
        <div className="field">
          <label htmlFor={id}>
            Type <strong>{phrase}</strong> to confirm
          </label>
          <input
            id={id}
            className="input"
            autoComplete="off"
            value={typed}
            onChange={(event) => setTyped(event.target.value)}
          />
        </div>
      )}
      {failure !== null && <Notice tone="danger">{messageOf(failure)}</Notice>}
    </Dialog>
  );
}
