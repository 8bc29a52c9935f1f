// Ollama's API.
import * as kind from '../kinds.js';
import { setting } from './setting.js';

export const ollama = {
  open: setting(
    kind.flag,
    false,
    "Serve Ollama's API (/api) without an API key to programs on this machine. Requests from other addresses, through a proxy or from web pages still need a key.",
  ),
  organization: setting(
    kind.nullable(kind.text(1, 128)),
    null,
    'Name or ID of the organization to which requests without a key are attributed; required with ollama.open.',
    { shown: 'none' },
  ),
};
