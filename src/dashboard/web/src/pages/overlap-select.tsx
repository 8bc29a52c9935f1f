// Field for how long a key or secret stays valid after it is replaced.
import type { ReactNode } from 'react';
import { Select } from '../components/field.js';

const OVERLAPS = [
  { value: '0', label: 'Revoke it immediately' },
  { value: '3600', label: '1 hour' },
  { value: '86400', label: '24 hours' },
  { value: '604800', label: '7 days' },
  { value: '2592000', label: '30 days' },
];

export const DEFAULT_OVERLAP = '86400';

export function OverlapSelect({
  label,
  hint,
  value,
  onChange,
  error,
}: {
  label: string;
  hint: string;
  value: string;
  onChange: (value: string) => void;
  error: string | null;
}): ReactNode {
  return (
    <Select
      label={label}
      value={value}
      onChange={(event) => onChange(event.target.value)}
      options={OVERLAPS}
      error={error}
      hint={hint}
    />
  );
}
