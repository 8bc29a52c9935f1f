// Releases everything held by a lost HTTP worker or by a previous process, and ends the responses that it was
// generating. Otherwise, the worker's concurrency slots would stay taken, and its responses would stay in progress
// forever. Runs on the primary thread.

import type { Admission } from '../admission/admission.js';
import { unfinishedResponses } from '../protocol/responses/unfinished.js';
import type { ThreadBus } from '../shared/bus.js';
import type { HeldResponses } from '../storage/held-responses.js';
import type { ResponseStore } from '../storage/response-store.js';
import type { Log } from '../telemetry/types.js';
import type { UsageRecorder } from '../usage/usage-recorder.js';

/** How long other threads may take to report that they are running a response. */
const CLAIM_MS = 10_000;
/** Delay before a retry after the disk was full or a thread did not reply. */
const AGAIN_MS = 10_000;

export type IsRunning = (organizationId: string, id: string) => boolean | Promise<boolean>;

/**
 * Ends responses that no thread generates any longer: counts their tokens and notifies the clients that follow them.
 */
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
      if (spent !== null) usage.finished(spent); // recorded now: a retry will not find it again
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
  /** The lost thread's ledger. */
  ledger: Int32Array;
  held: HeldResponses;
  bus: ThreadBus;
  failUnfinished(isRunning: IsRunning): Promise<void>;
  log: Log;
  /** Number of running threads. */
  others(): number;
  /** Aborted when the server closes. In that case, the remaining responses are ended at the next startup. */
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
        return claims.includes(true) || !isKnown; // a thread that did not reply may still be running the response
      });
    } catch (err) {
      isSure = false;
      if (!closing.aborted) log.error({ err }, "cannot mark a lost HTTP worker's responses as failed, will retry");
    }
    if (!isSure && !closing.aborted)
      setTimeout(() => {
        if (!closing.aborted) void end();
      }, AGAIN_MS).unref();
  };
  void end();
}
