// The lifecycle of a model name: active, then deprecated (still served, with announced dates), then retired (no longer
// served, with a named successor). Declarations contain dates, from which the current state is derived. No side
// effects.

export type LifecycleState = 'active' | 'deprecated' | 'retired';

/** The lifecycle as declared in the catalog, in the configuration or by an operator. Dates are RFC 3339. */
export interface DeclaredDeprecation {
  readonly lifecycle: LifecycleState;
  readonly deprecated_at?: string | null | undefined;
  readonly retires_at?: string | null | undefined;
  readonly successor?: string | null | undefined;
}

/** The current state. */
export interface ModelDeprecation {
  readonly state: LifecycleState;
  readonly deprecatedAt: string | null;
  readonly retiresAt: string | null;
  /** The recommended replacement. */
  readonly successor: string | null;
}

/** Minimum time between deprecation and retirement, to give the model's users notice. */
export const NOTICE_DAYS = 90;

/** A date takes effect automatically once it has passed. A state declared before its date takes effect immediately. */
export function lifecycleAt(
  { lifecycle, deprecated_at = null, retires_at = null, successor = null }: DeclaredDeprecation,
  now: number,
): ModelDeprecation {
  const passed = (date: string | null): boolean => date !== null && Date.parse(date) <= now;
  const state =
    lifecycle === 'retired' || passed(retires_at)
      ? 'retired'
      : lifecycle === 'deprecated' || passed(deprecated_at)
        ? 'deprecated'
        : 'active';
  return { state, deprecatedAt: deprecated_at, retiresAt: retires_at, successor };
}

/** Response headers for a deprecated model. */
export function lifecycleHeaders({ state, retiresAt }: ModelDeprecation): [name: string, value: string][] {
  if (state !== 'deprecated') return [];
  return [
    ['Deprecation', 'true'],
    ...(retiresAt === null ? [] : [['Sunset', new Date(retiresAt).toUTCString()] as [string, string]]),
  ];
}
