// Page header and panels.
import { useEffect, useRef } from 'react';
import type { ReactNode } from 'react';
import { clock, dateTime, day, isSameDay, relative } from '../format.js';

let firstPage = true;

/**
 * The page's title, one line about its purpose, and its main actions. Sets the window title. On every page after the
 * first, the title takes the focus, so that screen readers announce the new page.
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

/** A labeled number: `<Stats><Stat …/></Stats>`. */
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

/**
 * Shows how much of a limit is used, as a bar with text. By default, `tone` is a color that depends on the
 * fraction.
 */
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

/** A relative time, with the exact time on hover. */
export function Time({ at, never = 'never' }: { at: string | null; never?: string }): ReactNode {
  return at === null ? (
    <span className="muted">{never}</span>
  ) : (
    <time dateTime={at} title={dateTime(at)}>
      {relative(at)}
    </time>
  );
}

/**
 * An absolute time, for lists with many entries per minute. The day is omitted if it is today. `precise`: to the
 * millisecond.
 */
export function Moment({ at, precise = true }: { at: string; precise?: boolean }): ReactNode {
  const time = clock(at);
  return (
    <time dateTime={at} title={`${dateTime(at)}, ${relative(at)}`} className="moment">
      {!isSameDay(at, Date.now()) && <span className="moment-day">{day(at)} </span>}
      {time.slice(0, -4)}
      {precise && <span className="moment-ms">{time.slice(-4)}</span>}
    </time>
  );
}

/** Monospace text for IDs, version numbers and model names. */
export function Code({ children }: { children: ReactNode }): ReactNode {
  return <code className="id">{children}</code>;
}
