// Prompt and output lengths of a model's recent requests, used as a tuning workload. Contains only numbers, no text.

import type { RequestLog } from '../../usage/requests/request-log.js';
import type { RequestShape } from '../../bench/tune/workload.js';

const MAX_SHAPES = 500;
const PAGE = 100;
/** Maximum number of log pages to scan. */
const MAX_PAGES = 50;

/** Completed requests, newest first, excluding those made with `exceptKeys` and those with images. */
export async function recentShapes(
  requestLog: Pick<RequestLog, 'list'>,
  models: readonly string[],
  exceptKeys: ReadonlySet<string>,
): Promise<RequestShape[]> {
  const shapes: RequestShape[] = [];
  for (const model of models) {
    const own: RequestShape[] = [];
    let after: string | null = null;
    for (let page = 0; page < MAX_PAGES && own.length < MAX_SHAPES; page++) {
      const { rows, next } = await requestLog.list(
        { organizationId: null, keyId: null, model, outcome: 'completed' },
        PAGE,
        after,
      );
      for (const {
        row: { keyId, receivedAt, inputTokens, cachedTokens, outputTokens, images },
      } of rows) {
        if (!exceptKeys.has(keyId) && inputTokens > 0 && outputTokens > 0 && images === 0)
          own.push({ at: receivedAt, inputTokens, cachedTokens, outputTokens });
      }
      if (next === null) break;
      after = next;
    }
    shapes.push(...own);
  }
  return shapes.sort((a, b) => b.at - a.at).slice(0, MAX_SHAPES);
}
