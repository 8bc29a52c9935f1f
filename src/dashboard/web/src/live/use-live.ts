// React hook for the operators' live stream: samples, connection state, pausing.
import { useCallback, useEffect, useRef, useState } from 'react';
import { API, ApiFailure, send } from '../api.js';
import { follow } from './follow.js';
import type { Connection } from './follow.js';
import { Samples } from './samples.js';

export interface Live {
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
  const [paused, setPaused] = useState(false);
  const [attempt, setAttempt] = useState(0);
  const frozen = useRef(false);
  frozen.current = paused;

  useEffect(() => {
    const stop = follow({
      open: (signal) => open(signal),
      onEvent: (event) => {
        if (samples.receive(event) && !frozen.current) setVersion((n) => n + 1);
      },
      onConnection: setConnection,
    });
    return stop;
  }, [samples, attempt]);

  return {
    samples,
    version,
    connection,
    paused,
    setPaused: useCallback((next: boolean) => {
      setPaused(next);
      if (!next) setVersion((n) => n + 1);
    }, []),
    retry: useCallback(() => setAttempt((n) => n + 1), []),
  };
}

// `send` throws the server's error, and follow() decides by the status whether to retry.
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
