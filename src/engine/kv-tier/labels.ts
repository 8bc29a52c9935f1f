// The labels of exported pages. A label names an organization and the reason for keeping the pages. No side effects.

/**
 * Returns a label. `kept`: the reason for keeping the pages, which is the ID of a stored response or one of the
 * values below.
 */
export const labelOf = (organizationId: string, kept: string): string => `${organizationId} ${kept}`;
/** Splits a label into its parts. */
export function partsOfLabel(label: string): { organizationId: string; kept: string } {
  const at = label.indexOf(' ');
  return { organizationId: label.slice(0, at), kept: label.slice(at + 1) };
}
/** Returns the reason for keeping the pages of a pinned prompt. `pin`: the ID of the pinned prompt. */
export const keptForPin = (pin: string): string => `pin:${pin}`;
export const isPinLabel = (label: string): boolean => partsOfLabel(label).kept.startsWith('pin:');
export const KEPT_A_DAY = '24h';
export const KEPT_ALWAYS = 'all';
