// How a model's name ends: active, then deprecated (served, with the dates of its end), then retired (unknown,
// with its successor named). Declarations have dates, and the state at a moment follows from these. Pure.

export type LifecycleState = 'active' | 'deprecated' | 'retired';

/** As the catalog, the settings or an operator have it. Dates are RFC 3339. */
export interface DeclaredLifecycle {
  readonly lifecycle: LifecycleState;
  readonly deprecated_at?: string | null | undefined;
  readonly retires_at?: string | null | undefined;
  readonly successor?: string | null | undefined;
}

/** As it is now. */
export interface ModelLifecycle {
  readonly state: LifecycleState;
  readonly deprecatedAt: string | null;
  readonly retiresAt: string | null;
  /** The model to be used instead. */
  readonly successor: string | null;
}

/** Between the two dates, so that whoever uses a model learns of its end in time. */
export const NOTICE_DAYS = 90;

/** A date that has come acts by itself; a state declared before its date holds at once. */
export function lifecycleAt(
  { lifecycle, deprecated_at = null, retires_at = null, successor = null }: DeclaredLifecycle,
  now: number,
): ModelLifecycle {
  const passed = (date: string | null): boolean => date !== null && Date.parse(date) <= now;
  const state =
    lifecycle === 'retired' || passed(retires_at)
      ? 'retired'
      : lifecycle === 'deprecated' || passed(deprecated_at)
        ? 'deprecated'
        : 'active';
  return { state, deprecatedAt: deprecated_at, retiresAt: retires_at, successor };
}

/** What answers of a deprecated model carry. */
export function lifecycleHeaders({ state, retiresAt }: ModelLifecycle): [name: string, value: string][] {
  if (state !== 'deprecated') return [];
  return [
    ['Deprecation', 'true'],
    ...(retiresAt === null ? [] : [['Sunset', new Date(retiresAt).toUTCString()] as [string, string]]),
  ];
}
