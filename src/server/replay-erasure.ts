// Erases stored token IDs of tool calls and reasoning when their stored response is deleted or when they expire.

import type { ReplayStore } from '../generation/replay/replay-store.js';
import type { Replays } from '../generation/replay/replays.js';
import type { EraseGate } from '../storage/erase-gate.js';
import type { ResponseStore } from '../storage/response-store.js';
import type { Log } from '../telemetry/types.js';

const SWEEP_MS = 300_000;

/** Wraps `responses.delete` so that deleting a response also erases the token IDs that belong to the response. */
export function eraseReplaysWithResponses(responses: Pick<ResponseStore, 'delete'>, replays: Replays, log: Log): void {
  const remove = responses.delete.bind(responses);
  responses.delete = async (organizationId, id) => {
    const removed = await remove(organizationId, id);
    if (!removed) return false;
    try {
      await replays.eraseResponse(organizationId, id);
    } catch (err) {
      log.error({ err, response_id: id }, "cannot erase a deleted response's token IDs; they expire with it");
    }
    return true;
  };
}

/** Periodically erases expired token IDs. Returns a function that stops the sweep. */
export function sweepReplays(
  store: Pick<ReplayStore, 'sweep'>,
  gate: Pick<EraseGate, 'allows'>,
  log: Log,
): () => Promise<void> {
  let running: Promise<void> = Promise.resolve();
  const timer = setInterval(() => {
    if (!gate.allows()) return;
    running = running
      .then(async () => void (await store.sweep()))
      .catch((err: unknown) => log.error({ err }, 'cannot erase expired tokens of tool calls and reasoning'));
  }, SWEEP_MS).unref();
  return async () => {
    clearInterval(timer);
    await running;
  };
}
