// React hook for the operators' live stream: samples, connection state, pausing.
import { useCallback, useEffect, useState } from 'react';
import { API, ApiFailure, send } from '../api.js';
import { follow } from './follow.js';
import type { Connection } from './follow.js';
import { Samples } from './samples.js';

export interface Live {
  /** The samples to show; while paused, the samples up to the pause. */
  samples: Samples;
  /** Changes whenever there is something new to render. */
  version: number;
  connection: Connection;
  paused: boolean;
  /** Freezes the display. Samples are still collected. */
  setPaused(paused: boolean): void;
  /** Reconnects immediately instead of waiting. */
  retry(): void;
}

export function useLive(): Live {
  const [samples] = useState(() => new Samples());
  const [version, setVersion] = useState(0);
  const [connection, setConnection] = useState<Connection>({ state: 'connecting' });
  const [frozen, setFrozen] = useState<Samples | null>(null);
  const [attempt, setAttempt] = useState(0);

  useEffect(() => {
    const stop = follow({
      open: (signal) => open(signal),
      onEvent: (event) => {
        if (samples.receive(event)) setVersion((n) => n + 1);
      },
      onConnection: setConnection,
    });
    return stop;
  }, [samples, attempt]);

  return {
    samples: frozen ?? samples,
    version,
    connection,
    paused: frozen !== null,
    setPaused: useCallback((next: boolean) => setFrozen(next ? samples.copy() : null), [samples]),
    retry: useCallback(() => setAttempt((n) => n + 1), []),
  };
}

// `send` throws the server's error, and follow() uses the status to decide whether to retry.
async function open(signal: AbortSignal): Promise<Response> {
  try {
    return await send('GET', `${API}/operator/live`, { signal, headers: { Accept: 'text/event-stream' } });
  } catch (error) {
    if (!(error instanceof ApiFailure) || error.status === 0) throw error;
    const headers: Record<string, string> =
      error.retryAfterMs === null ? {} : { 'retry-after': String(Math.ceil(error.retryAfterMs / 1000)) };
    return new Response(JSON.stringify({ error: { message: error.message } }), { status: error.status, headers });
  }
}
