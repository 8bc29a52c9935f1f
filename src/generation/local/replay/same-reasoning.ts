// Compares reasoning text as sent to the client with the text between the markers of a generated reasoning block. Pure.

/** Whether the text in front of the reasoning is only white space or the label that some models generate there. */
export const isLead = (text: string, label: string | undefined): boolean => text.trim() === '' || text.trim() === label;

/**
 * Whether a generated block contains exactly this reasoning. White space around the reasoning and a label before it are
 * ignored.
 */
export function isReasoning(block: string, reasoning: string, label: string | undefined): boolean {
  const inside = block.trim();
  const text = reasoning.trim();
  return inside === text || (inside.endsWith(text) && isLead(inside.slice(0, inside.length - text.length), label));
}
