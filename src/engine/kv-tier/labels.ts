// The labels under which the engine exports pages. A label names an organization and the reason for keeping the pages.
// No side effects.

/** `kept`: the reason, which is the ID of a stored response or one of the values below. */
export const labelOf = (organizationId: string, kept: string): string => `${organizationId} ${kept}`;
/** The parts of a label. */
export function partsOfLabel(label: string): { organizationId: string; kept: string } {
  const at = label.indexOf(' ');
  return { organizationId: label.slice(0, at), kept: label.slice(at + 1) };
}
/** The reason for keeping the pages of a pinned prompt. */
export const keptForPin = (pin: string): string => `pin:${pin}`;
export const isPinLabel = (label: string): boolean => partsOfLabel(label).kept.startsWith('pin:');
export const KEPT_A_DAY = '24h';
export const KEPT_ALWAYS = 'all';
