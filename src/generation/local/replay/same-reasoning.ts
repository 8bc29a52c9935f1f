// Compares reasoning as the client received it with the text between a block's markers. Pure.

/** Whether a text before reasoning is only white space, or the label. */
export const isLead = (text: string, label: string | undefined): boolean => text.trim() === '' || text.trim() === label;

/** Whether a block contains exactly this reasoning. White space around it and a label before it are ignored. */
export function isReasoning(block: string, reasoning: string, label: string | undefined): boolean {
  const inside = block.trim();
  const text = reasoning.trim();
  return inside === text || (inside.endsWith(text) && isLead(inside.slice(0, inside.length - text.length), label));
}
