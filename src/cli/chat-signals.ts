// Handles signals during a conversation. The temporary key is revoked regardless of how the conversation ends.

import { constants } from 'node:os';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

export interface ChatSignals {
  /** Aborted by the first signal after armed(). */
  readonly stop: AbortSignal;
  /**
   * Must be called as soon as there may be a key to revoke. Before that, and on a second signal, the process exits
   * immediately.
   */
  armed(): void;
  off(): void;
}

export function chatSignals(): ChatSignals {
  const stop = new AbortController();
  let isArmed = false;
  const onSignal = (signal: NodeJS.Signals): void => {
    if (!isArmed || stop.signal.aborted) process.exit(128 + constants.signals[signal]);
    process.exitCode = 128 + constants.signals[signal];
    stop.abort();
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  return {
    stop: stop.signal,
    armed: () => {
      isArmed = true;
    },
    off: () => {
      for (const signal of SIGNALS) process.off(signal, onSignal);
    },
  };
}
