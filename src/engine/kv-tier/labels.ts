// The labels under which the engine exports pages: which organization they belong to, and what they are kept for. No
// side effects.

/** `kept`: the ID of a stored response, or one of the values below. */
export const labelOf = (organizationId: string, kept: string): string => `${organizationId} ${kept}`;
/** The parts of a label. */
export function partsOfLabel(label: string): { organizationId: string; kept: string } {
  const at = label.indexOf(' ');
  return { organizationId: label.slice(0, at), kept: label.slice(at + 1) };
}
/** What the pages of a pinned prompt are kept for. */
export const keptForPin = (pin: string): string => `pin:${pin}`;
export const isPinLabel = (label: string): boolean => partsOfLabel(label).kept.startsWith('pin:');
export const KEPT_A_DAY = '24h';
export const KEPT_ALWAYS = 'all';
