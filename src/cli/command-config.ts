// Loads the settings for every command except serve, which reports problems with settings in log lines rather than as
// notices on stderr.

import type { OwnArguments, OwnFlags } from '../config/arguments.js';
import { loadConfig } from '../config/load.js';
import type { Config } from '../config/settings.js';

/** Like loadConfig(), but also writes a notice to stderr for each old setting name and each unknown variable. */
export function commandConfig(argv: readonly string[], flags: OwnFlags): { config: Config } & OwnArguments {
  const { config, own, renamed, unknown } = loadConfig({ argv }, flags);
  for (const name of unknown) process.stderr.write(`monolith: ${name}: unknown setting; the variable has no effect\n`);
  for (const { old, new: current, source } of renamed)
    process.stderr.write(
      `monolith: ${source}: the setting ${old} was renamed to ${current}; update the configuration\n`,
    );
  return { config, ...own };
}
