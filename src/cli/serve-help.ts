// The help of `monolith serve`, which also describes the settings.

import { loadConfig } from '../config/load.js';
import { settingsHelp } from '../config/help.js';
import { declared } from '../config/settings.js';

const USAGE = `
Usage: monolith serve [MODEL...] [flags]

Starts the server. Without models, it serves the built-in demonstration models.

MODEL is a GGUF file, a Hugging Face folder, OWNER/REPO[:QUANTIZATION] on the hub (downloaded if it is not in the
cache), a name from "monolith models --recommended", or NAME=SOURCE. Without NAME=, the model is served under a name
derived from the file or repository. --model NAME=SOURCE does the same as NAME=SOURCE.

If a model cannot be loaded, the server logs the error and serves the other models. Requests for that
model get 503 model_unavailable, and /readyz returns 503. The start fails if no model can be loaded.

Examples:
  monolith serve                                   the demonstration models
  monolith serve qwen3-4b                          a recommended model
  monolith serve path/to/model.gguf                a file, as "model"
  monolith serve Qwen/Qwen3-8B-GGUF:Q4_K_M         a repository, as "qwen3-8b"
  monolith serve small=a.gguf large=b.gguf         two files, with names
  monolith serve --host 0.0.0.0 --port 8000        reachable from other machines

Settings: every flag is also an environment variable (--http-keepalive-ms: MONOLITH_HTTP_KEEPALIVE_MS)
and a key of the JSON file given by --config FILE (http.keepalive_ms). A flag takes precedence over a
variable, and a variable over the file.`;

/** `argv`: the arguments, which may include settings. Throws UsageError for an unknown flag. */
export function serveHelp(argv: readonly string[]): string {
  const { own } = loadConfig({ argv: argv.filter((one) => one !== '--help' && one !== '-h') }, { '--all': 'switch' });
  const all = own.values.has('--all');
  const list = all
    ? ''
    : `
The common settings follow; "monolith serve --help --all" shows all ${declared.length}.`;
  return `${USAGE.trim()}${list}\n\n${settingsHelp({ all })}\n`;
}
