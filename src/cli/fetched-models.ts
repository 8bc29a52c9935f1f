// Models of a hub that the settings name (--model NAME=hf:OWNER/REPO), brought here before anything is served.

import type { Config } from '../config/settings.js';
import { showBytes } from '../config/kinds.js';
import { withHubModels } from '../hub/hub.js';
import type { Log } from '../telemetry/types.js';
import { Progress, retryLine } from './progress.js';

/** In a terminal progress is a bar; else it is lines of the log, or of stderr without one. Throws HubError. */
export async function withFetchedModels(config: Config, log: Log | null): Promise<Config> {
  const isLogged = log !== null && (config.log === 'json' || !process.stderr.isTTY);
  const lines = isLogged
    ? {
        write: (text: string): void => {
          log.info({}, text.trim());
        },
      }
    : process.stderr;
  const progress = new Progress(lines);
  try {
    return await withHubModels(config, {
      onProgress: (name, { quantization, bytes, total, waiting }) =>
        progress.at(`fetching ${name}, ${quantization}`, bytes, total, waiting ? 'another pull brings it' : ''),
      onRetry: (name, why, waitMs) => {
        progress.end();
        if (log === null) process.stderr.write(`${retryLine(name, why, waitMs)}\n`);
        else log.warn({ model: name }, retryLine(name, why, waitMs));
      },
      onPulled: (name, { path, bytes }) => {
        progress.end();
        log?.info({ model: name, path, bytes }, `${name} is there, ${showBytes(bytes)}`);
      },
    });
  } finally {
    progress.end();
  }
}
