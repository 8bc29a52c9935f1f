// Resources that one thread's requests share, whether they arrive over HTTP or from a batch: the queue for large bodies
// and the memory for large responses.

import { shareOf } from '../shared/thread-count.js';
import type { EventLoopMeter } from './event-loop-meter.js';
import { checkJsonComplexity, jsonObject, jsonText } from './json.js';
import { ParseQueue, type Task } from './parse-queue.js';
import { ResponseMemoryBudget } from './response-memory-budget.js';

export interface SharedWork {
  readonly turns: ParseQueue;
  readonly answers: ResponseMemoryBudget;
}

export const openSharedWork = (http: { max_answering_bytes: number; max_body_bytes: number }): SharedWork => ({
  turns: new ParseQueue(),
  answers: new ResponseMemoryBudget(shareOf(http.max_answering_bytes), http.max_body_bytes),
});

/**
 * Like parseJsonBody(), but a large text waits for its turn and is parsed in steps, so that other requests run between
 * the steps. The time is charged to `meter`, but the work is never refused. Rejects with ApiError.
 */
export function parseInTurns(
  { turns }: SharedWork,
  organizationId: string,
  bytes: Uint8Array,
  { meter, what }: { meter: EventLoopMeter; what: string },
): Promise<object> {
  return new Promise((resolve, reject) => {
    const step =
      (work: () => Task | undefined): Task =>
      () => {
        try {
          return meter.charged(bytes.length, work);
        } catch (error) {
          reject(error as Error);
          return undefined;
        }
      };
    const parsing = (text: string): Task =>
      step(() => {
        resolve(jsonObject(text, what));
        return undefined;
      });
    turns.take(
      organizationId,
      bytes.length,
      step(() => {
        checkJsonComplexity(bytes, what);
        return step(() => parsing(jsonText(bytes, what)));
      }),
    );
  });
}
