// Describes how a model processes an image. No side effects.
import type { DashboardImagePlan } from '../../../../shared/wire/playground.js';

/** "1600 × 1200, processed in 4 × 3 tiles of 364 × 364 and as a whole, 1,088 tokens" */
export function seenText({ width, height, tokens, columns, rows, pieces }: DashboardImagePlan): string {
  const tile = pieces.find(({ part }) => part === 'tile');
  const whole = pieces.find(({ part }) => part !== 'tile');
  const size = (piece: { width: number; height: number }): string => `${piece.width} × ${piece.height}`;
  const seen =
    tile !== undefined
      ? `in ${columns} × ${rows} tiles of ${size(tile)}${whole === undefined ? '' : ' and as a whole'}`
      : `as ${size(whole ?? { width, height })}`;
  return `${width} × ${height}, processed ${seen}, ${tokens.toLocaleString('en-US')} ${tokens === 1 ? 'token' : 'tokens'}`;
}
