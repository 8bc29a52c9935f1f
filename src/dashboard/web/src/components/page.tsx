// The head of a page and the boxes on it.
import { useEffect, useRef } from 'react';
import type { ReactNode } from 'react';
import { dateTime, relative } from '../format.js';

let firstPage = true;

/**
 * Title, a line on what the page is for, its main actions. Sets the window's title, and on every page but the
 * first takes the focus, so that a screen reader reads where one is.
 */
export function PageHeader({
  title,
  children,
  actions,
}: {
  title: string;
  children?: ReactNode;
  actions?: ReactNode;
}): ReactNode {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · Monolith`;
  }, [title]);
  useEffect(() => {
    if (firstPage) firstPage = false;
    else {
      heading.current?.focus({ preventScroll: true });
      window.scrollTo(0, 0);
    }
  }, []);
  return (
    <header className="page-header">
      <div>
        <h1 ref={heading} tabIndex={-1}>
          {title}
        </h1>
        {children !== undefined && <div className="page-lead">{children}</div>}
      </div>
      {actions !== undefined && <div className="page-actions">{actions}</div>}
    </header>
  );
}

export function Panel({
  title,
  lead,
  actions,
  children,
  flush = false,
}: {
  title?: string;
  lead?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  flush?: boolean;
}): ReactNode {
  return (
    <section className={flush ? 'panel flush' : 'panel'}>
      {(title !== undefined || actions !== undefined) && (
        <header className="panel-head">
          <div>
            {title !== undefined && <h2>{title}</h2>}
            {lead !== undefined && <p className="hint">{lead}</p>}
          </div>
          {actions !== undefined && <div className="panel-actions">{actions}</div>}
        </header>
      )}
      <div className="panel-body">{children}</div>
    </section>
  );
}

/** A figure with its name: `<Stats><Stat …/></Stats>`. */
export function Stats({ children }: { children: ReactNode }): ReactNode {
  return <dl className="stats">{children}</dl>;
}
export function Stat({ label, value, note }: { label: string; value: ReactNode; note?: ReactNode }): ReactNode {
  return (
    <div className="stat">
      <dt>{label}</dt>
      <dd>
        {value}
        {note !== undefined && <span className="stat-note">{note}</span>}
      </dd>
    </div>
  );
}

/** A share of a limit, as a bar with words. `tone` follows the share where it is not given. */
export function Meter({
  label,
  value,
  max,
  text,
}: {
  label: string;
  value: number;
  max: number;
  text: string;
}): ReactNode {
  const share = max <= 0 ? 0 : Math.min(1, Math.max(0, value / max));
  const tone = share >= 0.95 ? 'danger' : share >= 0.8 ? 'warn' : 'accent';
  return (
    <div
      className="meter"
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={max}
      aria-valuenow={Math.min(value, max)}
      aria-valuetext={text}
    >
      <span className={`meter-fill ${tone}`} style={{ width: `${share * 100}%` }} />
    </div>
  );
}

/** When something happened, in words; the exact time on hover. */
export function Time({ at, never = 'never' }: { at: string | null; never?: string }): ReactNode {
  return at === null ? (
    <span className="muted">{never}</span>
  ) : (
    <time dateTime={at} title={dateTime(at)}>
      {relative(at)}
    </time>
  );
}

/** Ids, numbers of versions, names of models: fixed pitch. */
export function Code({ children }: { children: ReactNode }): ReactNode {
  return <code className="id">{children}</code>;
}
