import type { ReactNode } from 'react';

/** The logo: a slab and its edge. */
export function Mark({ size = 24 }: { size?: number }): ReactNode {
  return (
    <svg className="mark" width={size} height={size} viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path fill="currentColor" d="M6.500 2h7v20h-7z" />
      <path fill="currentColor" opacity=".55" d="M15 4l3 2v14.500l-3 1.500z" />
    </svg>
  );
}

export function Wordmark(): ReactNode {
  return (
    <span className="wordmark">
      <Mark />
      <span>Monolith</span>
    </span>
  );
}
