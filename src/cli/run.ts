// monolith run: downloads a model if it is not on disk, and chats with it on the running server or on one that is
// started for the duration of the chat.

import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { OwnFlags } from '../config/arguments.js';
import { UsageError } from '../config/arguments.js';
import { expanded } from '../config/home.js';
import { isUpstreamAddress } from '../config/kinds.js';
import { configWith } from '../config/load.js';
import type { Config } from '../config/settings.js';
import { Hub } from '../hub/hub.js';
import { HUB_SCHEME, parseModelRef } from '../hub/model-ref.js';
import { configuredModels } from '../server/engine-settings.js';
import type { LocalModel } from '../shared/wire/local-status.js';
import { askOnce, CHAT_COMMANDS, converse } from './chat-loop.js';
import { historyPath } from './chat-history.js';
import { chosenModel, localPeer, modelsOf, ownPeer, runningServer } from './chat-peer.js';
import type { Peer } from './chat-peer.js';
import { chatSignals } from './chat-signals.js';
import { note } from './chat-terminal.js';
import { commandConfig } from './command-config.js';
import { commandName } from './command-name.js';
import { withFetchedModels } from './fetched-models.js';
import { modelArgument } from './model-argument.js';
import { askedForHelp } from './output.js';
import { servedBeside } from './served-models.js';
import { serverStatus } from './server-status.js';

const HELP = `
Usage: monolith run MODEL [PROMPT] [--system TEXT] [--no-history] [settings]

Chats with a model. MODEL is the name of a model that the running server has, a name from
"monolith models --recommended", OWNER/REPO[:QUANTIZATION] on the hub, a GGUF file or a Hugging Face folder. A model
from the hub is downloaded if it is not in the cache.

If the server that uses the data directory has the model, the chat uses that server. Otherwise a server for this model
runs until the chat ends. With PROMPT, the command prints one response and ends. If stdin is a pipe, each line is sent
as a message, and only the responses are written to stdout.

Commands in the chat:
${CHAT_COMMANDS}

Examples:
  monolith run qwen3-4b
  monolith run Qwen/Qwen3-8B-GGUF:Q4_K_M
  monolith run path/to/model.gguf "Why is the sky blue?"
  monolith run hal-1.0 < questions.txt
`;

export const FLAGS: OwnFlags = { '--system': 'value', '--no-history': 'switch' };

interface Found {
  readonly peer: Peer;
  readonly model: string;
}

export async function run(argv: string[]): Promise<number> {
  if (askedForHelp(argv, HELP)) return 0;
  const { config, values, words } = commandConfig(argv, FLAGS);
  const [word, ...prompt] = words;
  if (word === undefined) throw new UsageError('run: a model is required, such as "monolith run qwen3-4b"');
  const signals = chatSignals();
  const { peer, model } =
    (await onRunningServer(word, config, signals.armed)) ?? (await onOwnServer(word, config, signals.armed));
  try {
    const models = await modelsOf(peer);
    const options = {
      model: chosenModel(model, models),
      models,
      system: values.get('--system') ?? null,
      history: values.has('--no-history') ? null : historyPath(),
      stop: signals.stop,
    };
    const answered =
      prompt.length === 0 ? await converse(peer, options) : await askOnce(peer, options, prompt.join(' '));
    if (signals.stop.aborted) return Number(process.exitCode);
    return answered || (prompt.length === 0 && process.stdin.isTTY) ? 0 : 1;
  } finally {
    await peer.close();
    signals.off();
  }
}

/** Null if no server is running, or if the running server does not have the model. */
async function onRunningServer(word: string, config: Config, armed: () => void): Promise<Found | null> {
  const url = await runningServer(config);
  const status = url === null ? null : await serverStatus(config.data_dir);
  if (url === null || status === null) return null;
  const served = status.models.filter(({ state }) => state !== 'failed');
  const model = served.some(({ names }) => names.includes(word)) ? word : nameOnServer(word, config, served);
  if (model === null) return null;
  armed();
  return { peer: localPeer(url, config), model };
}

/** The server's public name for a file or downloaded model; null if it does not serve it. */
function nameOnServer(word: string, config: Config, served: readonly LocalModel[]): string | null {
  const { source } = modelArgument('run', word);
  const path = source.startsWith(HUB_SCHEME)
    ? (new Hub(config).cached(parseModelRef(source))?.path ?? null)
    : expanded(source);
  if (path === null) return null;
  return served.find(({ file }) => file !== null && real(file) === real(path))?.names[0] ?? null;
}

function real(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

async function onOwnServer(word: string, config: Config, armed: () => void): Promise<Found> {
  const isServed = config.model.length === 0 && (await isServedByDefault(word, config));
  const { name, source } = isServed ? { name: word, source: null } : modelArgument('run', word);
  const wanted = source === null ? config : withModel(config, name, source);
  const fetched = await withFetchedModels(wanted, null);
  const isTaken = (await serverStatus(config.data_dir)) !== null;
  if (isTaken)
    note(
      `The running server does not have ${name}; starting a second server until the chat ends. To add a downloaded model to the running server: ${commandName()} models serve NAME MODEL\n`,
    );
  const folder = isTaken ? mkdtempSync(join(tmpdir(), 'monolith-run-')) : null;
  const { peer, server } = await ownPeer({
    ...fetched,
    ...(folder !== null && { data_dir: folder }),
    port: await freePort(fetched),
  });
  armed();
  if (folder === null && server.createdKey !== null)
    note(`API key: ${server.createdKey} (shown only once; "${commandName()} keys create" creates another)\n`);
  return {
    model: name,
    peer: {
      ...peer,
      close: async () => {
        await peer.close();
        if (folder !== null) rmSync(folder, { recursive: true, force: true });
      },
    },
  };
}

/**
 * Whether a server that is started without --model serves the model, because the model is built in or because an
 * operator added it.
 */
async function isServedByDefault(name: string, config: Config): Promise<boolean> {
  const builtIn = configuredModels({ ...config, models: configWith().models });
  return builtIn.some(({ id }) => id === name) || (await servedBeside(config)).has(name);
}

const withModel = (config: Config, name: string, source: string): Config => ({
  ...config,
  model: [{ name, path: isAddress(source) ? source : expanded(source) }],
});

const isAddress = (source: string): boolean => source.startsWith(HUB_SCHEME) || isUpstreamAddress(source);

/** The configured port, or 0 (any free port) if it is in use. */
function freePort({ host, port }: Config): Promise<number> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(0));
    probe.listen(port, host, () => probe.close(() => resolve(port)));
  });
}
