// Copy buttons, and code blocks with a copy button.
import { useEffect, useId, useRef, useState } from 'react';
import type { ReactNode } from 'react';
import { Icon } from './icon.js';

// The clipboard API requires https or localhost. If it fails, the text is copied from a hidden field.
async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement('textarea');
    area.value = text;
    area.className = 'visually-hidden';
    // an open dialog makes everything outside it inert
    const host = document.querySelector('dialog[open]') ?? document.body;
    const before = document.activeElement;
    host.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    if (before instanceof HTMLElement) before.focus();
    return done;
  }
}

export function CopyButton({
  text,
  label = 'Copy',
  iconOnly = false,
}: {
  text: string;
  label?: string;
  iconOnly?: boolean;
}): ReactNode {
  const [state, setState] = useState<'idle' | 'done' | 'failed'>('idle');
  const timer = useRef<number | undefined>(undefined);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  const copy = (): void => {
    void copyText(text).then((done) => {
      setState(done ? 'done' : 'failed');
      window.clearTimeout(timer.current);
      timer.current = window.setTimeout(() => setState('idle'), 2000);
    });
  };
  const said = state === 'done' ? 'Copied' : state === 'failed' ? 'Press Ctrl+C' : label;
  return (
    <button
      type="button"
      className={iconOnly ? 'icon-button' : 'button secondary small'}
      onClick={copy}
      aria-label={iconOnly ? label : undefined}
      title={iconOnly ? label : undefined}
    >
      <Icon name={state === 'done' ? 'check' : 'copy'} />
      {!iconOnly && <span>{said}</span>}
      <span className="visually-hidden" aria-live="polite">
        {state === 'done' ? 'Copied' : ''}
      </span>
    </button>
  );
}

/** Code with a copy button. Long lines scroll inside the block. */
export function CodeBlock({ code, label }: { code: string; label: string }): ReactNode {
  const id = useId();
  return (
    <figure className="code-block">
      <figcaption id={id}>
        <span>{label}</span>
        <CopyButton text={code} label="Copy" />
      </figcaption>
      <pre tabIndex={0} aria-labelledby={id} role="region">
        <code>{code}</code>
      </pre>
    </figure>
  );
}
