// What a thread held and ran that has ended by itself, or the process before this one: given up, so that nothing stays taken and
// no response in progress for ever. On the primary thread.

import type { Admission } from '../admission/admission.js';
import { unfinishedResponses } from '../protocol/responses/unfinished.js';
import type { ThreadBus } from '../shared/bus.js';
import type { HeldResponses } from '../storage/held-responses.js';
import type { ResponseStore } from '../storage/response-store.js';
import type { Log } from '../telemetry/types.js';
import type { UsageRecorder } from '../usage/usage-recorder.js';

/** How long the threads have for saying that a response runs with them. */
const CLAIM_MS = 10_000;
/** When that is looked at again: the disk was full, or a thread had not answered. */
const AGAIN_MS = 10_000;

export type IsRunning = (organizationId: string, id: string) => boolean | Promise<boolean>;

/** Ends what nobody generates any more: its tokens count, who follows it is told. */
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
      if (spent !== null) usage.finished(spent); // now: nobody meets it again, whatever becomes of the next one
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
  /** Of that thread. */
  ledger: Int32Array;
  held: HeldResponses;
  bus: ThreadBus;
  failUnfinished(isRunning: IsRunning): Promise<void>;
  log: Log;
  /** Threads that run. */
  others(): number;
  /** The server ends: the next start does the rest. */
  closing: AbortSignal;
}

export function giveUp({
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
        return claims.includes(true) || !isKnown; // who does not answer may be the one
      });
    } catch (err) {
      isSure = false;
      if (!closing.aborted)
        log.error({ err }, 'responses of an ended thread could not be marked failed; it is tried again');
    }
    if (!isSure && !closing.aborted)
      setTimeout(() => {
        if (!closing.aborted) void end();
      }, AGAIN_MS).unref();
  };
  void end();
}
