// The settings whose names have no section: addresses, the data directory, the log, and the models and adapters to
// serve.
import { join } from 'node:path';
import { home } from '../home.js';
import * as kind from '../kinds.js';
import { setting } from './setting.js';

export const defaultDataDir = join(process.env['XDG_DATA_HOME'] ?? join(home(), '.local', 'share'), 'monolith');

export const server = {
  host: setting(
    kind.text(1, 255),
    '127.0.0.1',
    'Address to listen on. Use 0.0.0.0 or :: to listen on all interfaces.',
    { main: true },
  ),
  port: setting(
    kind.integer(0, 65_535),
    8080,
    'TCP port to listen on; 0 = any free port, shown in the startup message.',
    { main: true },
  ),
  data_dir: setting(
    kind.path,
    defaultDataDir,
    'Directory for the database and config.json. Created if it does not exist.',
    { shown: '~/.local/share/monolith', main: true },
  ),
  api_key: setting(
    kind.nullable(kind.text(8, 256)),
    null,
    'API key to accept, for example from a secret store. If unset, the first start creates a key and prints it.',
    { secret: true, shown: 'created', main: true },
  ),
  log: setting(kind.choice('text', 'json'), 'text', 'Format of the log lines and of the startup message.', {
    main: true,
  }),
  log_level: setting(
    kind.choice('debug', 'info', 'warn', 'error', 'silent'),
    'info',
    'Minimum severity of the log lines.',
  ),
  log_file_bytes: setting(
    kind.bytes(0, 2 ** 40),
    16 * 1024 ** 2,
    'Maximum total size of the copy of the log that "monolith logs" shows (server.log and server.log.1 in the data directory); 0 = keep no copy.',
  ),
  model: setting(
    kind.modelFiles,
    [],
    'Model to serve, as NAME=SOURCE; repeatable. SOURCE is a GGUF file, a Hugging Face folder, hf:OWNER/REPO[:QUANTIZATION] (downloaded if it is not in the cache) or the URL of an upstream server (http://127.0.0.1:8000/v1). Replaces the built-in models.',
    { shown: 'the built-in models', main: true },
  ),
  adapter: setting(
    kind.adapterFiles,
    [],
    'LoRA adapter to load, as NAME=FILE or NAME=FILE:SCALE; repeatable. FILE is a GGUF file or a PEFT folder. Served as MODEL:NAME and, if no model has that name, as NAME. If several models are served, write MODEL:NAME=FILE.',
    { shown: 'none', main: true },
  ),
};
