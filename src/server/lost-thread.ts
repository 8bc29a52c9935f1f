// Releases what a lost HTTP worker or a previous process held, and ends its running responses. Otherwise, its
// concurrency slots would stay taken, and its responses would stay in progress forever. Used on the primary thread.

import type { Admission } from '../admission/admission.js';
import { unfinishedResponses } from '../protocol/responses/unfinished.js';
import type { ThreadBus } from '../shared/bus.js';
import type { HeldResponses } from '../storage/held-responses.js';
import type { ResponseStore } from '../storage/response-store.js';
import type { Log } from '../telemetry/types.js';
import type { UsageRecorder } from '../usage/usage-recorder.js';

/** How long the threads may take to report that they run a response. */
const CLAIM_MS = 10_000;
/** Delay before a retry, after a full disk or a thread that did not reply. */
const AGAIN_MS = 10_000;

export type IsRunning = (organizationId: string, id: string) => boolean | Promise<boolean>;

/** Ends responses that no thread generates any more: counts their tokens and notifies clients that follow them. */
export async function endUnfinished(
  responses: ResponseStore,
  usage: Pick<UsageRecorder, 'finished' | 'flush'>,
  bus: ThreadBus,
  isRunning?: IsRunning,
): Promise<void> {
  const ended: string[] = [];
  try {
    for await (const {
      record: { id },
      usage: spent,
    } of responses.failUnfinished(unfinishedResponses, isRunning)) {
      if (spent !== null) usage.finished(spent); // recorded now: it is not found again if a later response fails
      ended.push(id);
    }
  } finally {
    for (const id of ended) bus.publish('response.logged', { id, ended: true });
    await usage.flush();
  }
}

export interface LostThread {
  index: number;
  admission: Pick<Admission, 'leaveAll'>;
  /** The ledger of the lost thread. */
  ledger: Int32Array;
  held: HeldResponses;
  bus: ThreadBus;
  failUnfinished(isRunning: IsRunning): Promise<void>;
  log: Log;
  /** Number of running threads. */
  others(): number;
  /** Aborted when the server closes. The next start then ends the remaining responses. */
  closing: AbortSignal;
}

export function abortThread({
  index,
  admission,
  ledger,
  held,
  bus,
  failUnfinished,
  log,
  others,
  closing,
}: LostThread): void {
  admission.leaveAll(ledger);
  held.clear(index);
  const end = async (): Promise<void> => {
    let isSure = true;
    try {
      await failUnfinished(async (organizationId, id) => {
        const asked = others();
        const claims = await bus.ask('response.running', { organizationId, id, foreground: false }, CLAIM_MS);
        const isKnown = claims.includes(true) || claims.length >= asked;
        isSure &&= isKnown;
        return claims.includes(true) || !isKnown; // a thread that did not reply may be running the response
      });
    } catch (err) {
      isSure = false;
      if (!closing.aborted) log.error({ err }, 'cannot mark the responses of a lost HTTP worker as failed, will retry');
    }
    if (!isSure && !closing.aborted)
      setTimeout(() => {
        if (!closing.aborted) void end();
      }, AGAIN_MS).unref();
  };
  void end();
}
