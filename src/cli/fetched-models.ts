// Downloads the hub models that the settings name (--model NAME=hf:OWNER/REPO), before anything is served.

import type { Config } from '../config/settings.js';
import { showBytes } from '../config/kinds.js';
import { withHubModels } from '../hub/hub.js';
import type { Log } from '../telemetry/types.js';
import { Progress, retryLine } from './progress.js';

/**
 * Progress is shown as a bar in a terminal, otherwise in log lines, or on stderr if there is no log. Throws HubError.
 */
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
        progress.at(
          `downloading ${name}, ${quantization}`,
          bytes,
          total,
          waiting ? 'waiting for another download of it' : '',
        ),
      onRetry: (name, why, waitMs) => {
        progress.end();
        if (log === null) process.stderr.write(`${retryLine(name, why, waitMs)}\n`);
        else log.warn({ model: name }, retryLine(name, why, waitMs));
      },
      onPulled: (name, { path, bytes }) => {
        progress.end();
        log?.info({ model: name, path, bytes }, `downloaded ${name}, ${showBytes(bytes)}`);
      },
    });
  } finally {
    progress.end();
  }
}
