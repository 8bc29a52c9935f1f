// Content for a page that is empty, is loading or has failed.
import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { ApiFailure, messageOf } from '../api.js';
import { Button } from './button.js';
import { Icon } from './icon.js';
import type { IconName } from './icon.js';

export function EmptyState({
  icon = 'info',
  title,
  children,
  action,
}: {
  icon?: IconName;
  title: string;
  children?: ReactNode;
  action?: ReactNode;
}): ReactNode {
  return (
    <div className="state">
      <span className="state-icon">
        <Icon name={icon} size={24} />
      </span>
      <h2>{title}</h2>
      {children !== undefined && <div className="state-text">{children}</div>}
      {action}
    </div>
  );
}

export function ErrorState({
  error,
  onRetry,
  title,
}: {
  error: unknown;
  onRetry?: () => void;
  title?: string;
}): ReactNode {
  const failure = error instanceof ApiFailure ? error : null;
  const refused = failure?.status === 403;
  return (
    <div className="state" role="alert">
      <span className="state-icon danger">
        <Icon name="warning" size={24} />
      </span>
      <h2>
        {title ??
          (refused ? 'You do not have access to this' : failure?.status === 0 ? 'No connection' : 'Failed to load')}
      </h2>
      <div className="state-text">
        <p>{messageOf(error)}</p>
      </div>
      {failure?.requestId != null && (
        <p className="hint">
          Request <code>{failure.requestId}</code>
        </p>
      )}
      {onRetry !== undefined && !refused && (
        <Button onClick={onRetry}>
          <Icon name="refresh" /> Try again
        </Button>
      )}
    </div>
  );
}

/** Gray placeholder bars shown while content loads. */
export function Skeleton({ rows = 3, height = 16 }: { rows?: number; height?: number }): ReactNode {
  return (
    <div className="skeleton" role="status">
      <span className="visually-hidden">Loading</span>
      {Array.from({ length: rows }, (_, row) => (
        <span key={row} className="skeleton-bar" style={{ height, width: `${[100, 86, 94, 78][row % 4]}%` }} />
      ))}
    </div>
  );
}

/** A message within a page or dialog. With tone `danger`, screen readers announce it immediately. */
export function Notice({
  tone = 'info',
  children,
}: {
  tone?: 'info' | 'ok' | 'warn' | 'danger';
  children: ReactNode;
}): ReactNode {
  return (
    <div className={`notice ${tone}`} role={tone === 'danger' ? 'alert' : undefined}>
      <Icon name={tone === 'ok' ? 'check' : tone === 'info' ? 'info' : 'warning'} />
      <div>{children}</div>
    </div>
  );
}

/** Renders a query's loading, error and data states. Data that has been loaded stays visible if a later load fails. */
export function Loaded<T>({
  query,
  children,
  loading,
}: {
  query: UseQueryResult<T>;
  children: (data: T) => ReactNode;
  loading?: ReactNode;
}): ReactNode {
  if (query.data !== undefined) {
    return (
      <>
        {query.isRefetchError && <Notice tone="warn">Not up to date: {messageOf(query.error)}</Notice>}
        {children(query.data)}
      </>
    );
  }
  if (query.isError)
    return (
      <ErrorState
        error={query.error}
        onRetry={() => {
          void query.refetch();
        }}
      />
    );
  return loading ?? <Skeleton />;
}
