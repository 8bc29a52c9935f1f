// monolith chat: a conversation in the terminal, streamed over HTTP from the server at --url, from the server that uses
// the data directory, or from a server started in this process for the duration of the conversation.

import { commandName } from './command-name.js';
import { constants } from 'node:os';
import { createInterface } from 'node:readline';
import type { Interface } from 'node:readline';
import { commandConfig } from './command-config.js';
import { loadConfig } from '../config/load.js';
import type { Config } from '../config/settings.js';
import { startServer } from '../server/server.js';
import type { Server } from '../server/server.js';
import { readServerRecord } from '../storage/data-dir-lock.js';
import { createTelemetry } from '../telemetry/telemetry.js';
import { accountsOf, ChatKey } from './chat-key.js';
import { progressText } from '../engine/loading.js';
import { clientKey, KEY_VARIABLE } from './client-key.js';
import { withFetchedModels } from './fetched-models.js';
import { streamChat, unreachable } from './chat-stream.js';
import type { ChatMessage } from './chat-stream.js';
import { noWords, UsageError } from '../config/arguments.js';
import type { OwnFlags } from '../config/arguments.js';
import { askedForHelp } from './output.js';

const HELP = `
Usage: monolith chat [--model NAME | --model NAME=PATH] [--url URL --api-key KEY] [--system TEXT]

Starts an interactive chat in the terminal. Connects to the server at --url, or to the server that uses the data
directory. If no server is running, it loads the models in this process.

Commands in the chat:
  /model    list the models, or switch to another model
  /reset    start a new conversation
  /exit     quit; Ctrl-D does the same
  Ctrl-C    stop the current response

The command creates a temporary API key and revokes it at the end, unless --api-key is given. If stdin is a pipe, each
line is sent as a message, and only the responses are written to stdout: echo Hello | monolith chat
`;

const FLAGS: OwnFlags = { '--url': 'value', '--system': 'value' };

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
const COMMANDS = '/model lists the models, /model NAME switches to one, /reset starts a new conversation, /exit quits';

export interface Peer {
  url: string;
  key(): Promise<string>;
  close(): Promise<void>;
}

export async function chat(argv: string[]): Promise<number> {
  if (askedForHelp(argv, HELP)) return 0;
  // --model NAME selects one of the server's models; --model NAME=SOURCE is the setting and may be repeated.
  const models = loadConfig({ argv }, { ...FLAGS, '--model': 'values' }).own.lists.get('--model') ?? [];
  const isSetting = models.length > 0 && models.every((model) => model.includes('='));
  const { config: asked, values, words } = commandConfig(argv, isSetting ? FLAGS : { ...FLAGS, '--model': 'value' });
  noWords(words);
  const wanted = values.get('--model');
  const config = await withFetchedModels(asked, null);

  const stop = new AbortController();
  let started = false;
  // The key is revoked however the conversation ends. Before a key exists, and on a second signal, the process exits
  // immediately.
  const onSignal = (signal: NodeJS.Signals): void => {
    if (!started || stop.signal.aborted) process.exit(128 + constants.signals[signal]);
    process.exitCode = 128 + constants.signals[signal];
    stop.abort();
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  const peer = await findPeer(values.get('--url'), config, () => {
    started = true;
  });
  try {
    const models = await modelsOf(peer);
    const model = wanted ?? config.model[0]?.name ?? models[0]?.id;
    if (!models.some(({ id }) => id === model) || model === undefined)
      throw new UsageError(
        `chat: ${model === undefined ? 'the server has no model' : `there is no model "${model}"`}; the server has ${namesOf(models)}`,
      );
    const system = values.get('--system');
    const answered = await converse(
      peer,
      model,
      models,
      system === undefined ? [] : [{ role: 'system', content: system }],
      stop.signal,
    );
    if (stop.signal.aborted) return Number(process.exitCode);
    return answered || process.stdin.isTTY ? 0 : 1;
  } finally {
    await peer.close();
    for (const signal of SIGNALS) process.off(signal, onSignal);
  }
}

/** `keyed` is called once there may be a key to revoke. */
async function findPeer(url: string | undefined, config: Config, keyed: () => void): Promise<Peer> {
  if (url !== undefined) {
    const key = clientKey(config);
    if (key === null) throw new UsageError(`chat: --url needs --api-key, or ${KEY_VARIABLE}`);
    keyed();
    return {
      url: url.replace(/\/+$/, '').replace(/\/v1$/, ''),
      key: () => Promise.resolve(key),
      close: () => Promise.resolve(),
    };
  }
  const chosen = config.api_key;
  const record = readServerRecord(config.data_dir);
  if (record !== null && config.model.length === 0 && (await answers(record.url))) {
    keyed();
    if (chosen !== null) return { url: record.url, key: () => Promise.resolve(chosen), close: () => Promise.resolve() };
    const key = new ChatKey(accountsOf(config));
    return { url: record.url, key: () => key.current(), close: () => key.revoke() };
  }
  const server: Server = await startServer(
    { ...config, host: '127.0.0.1', port: 0 },
    {
      telemetry: createTelemetry({ format: 'text', level: 'error' }),
      onLoading: ({ progress }) => {
        if (process.stderr.isTTY) process.stderr.write(`Loading … ${progressText(progress)}\u001b[K\r`);
      },
    },
  );
  keyed();
  const key = new ChatKey((work) => work(server.accounts));
  return {
    url: server.url,
    key: () => key.current(),
    close: async () => {
      await key.revoke();
      await server.close();
    },
  };
}

async function answers(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/livez`, { signal: AbortSignal.timeout(2000) })).ok;
  } catch {
    return false;
  }
}

interface Listed {
  id: string;
  demonstration?: boolean;
}

const namesOf = (models: readonly Listed[]): string => models.map(({ id }) => id).join(', ');

async function modelsOf(peer: Peer): Promise<Listed[]> {
  let response: Response;
  try {
    response = await fetch(`${peer.url}/v1/models`, { headers: { authorization: `Bearer ${await peer.key()}` } });
  } catch (error) {
    throw new UsageError(`chat: ${unreachable(peer.url, error)}`, error);
  }
  if (!response.ok) throw new UsageError(`chat: ${peer.url}/v1/models returned status ${response.status}`);
  const body = (await response.json().catch(() => null)) as { data?: Listed[] } | null;
  if (!Array.isArray(body?.data))
    throw new UsageError(`chat: ${peer.url} is not a model server: /v1/models returned no list`);
  return body.data;
}

/**
 * Writes everything except the responses. Goes to stderr if stdin is a pipe, so that stdout contains only responses.
 */
const notes = (text: string): void => {
  (process.stdin.isTTY ? process.stdout : process.stderr).write(text);
};
const dim = (text: string): string => (process.stdout.isTTY ? `\u001b[2m${text}\u001b[22m` : text);
const bold = (text: string): string => (process.stdout.isTTY ? `\u001b[1m${text}\u001b[22m` : text);

/** Shown for demonstration models. */
const DEMONSTRATION = `This is a small demonstration model. For a real one: ${commandName()} pull OWNER/REPO`;

/** Returns whether every message got a response. */
async function converse(
  peer: Peer,
  first: string,
  models: readonly Listed[],
  opening: readonly ChatMessage[],
  stop: AbortSignal,
): Promise<boolean> {
  let model = first;
  let answered = true;
  const asked = process.stdin.isTTY === true;
  const terminal = createInterface({
    input: process.stdin,
    output: asked ? process.stdout : undefined,
    terminal: asked,
  });
  notes(`${bold(model)} at ${peer.url}  ${dim('/model  /reset  /exit')}\n`);
  if (models.some(({ id, demonstration }) => id === first && demonstration === true)) notes(`${dim(DEMONSTRATION)}\n`);
  let history = [...opening];
  let answering: AbortController | null = null;
  if (stop.aborted) return answered;
  terminal.on('SIGINT', () => {
    if (answering !== null) answering.abort();
    else terminal.close();
  });
  stop.addEventListener('abort', () => {
    answering?.abort();
    terminal.close();
  });
  // Input may end while some of its lines are still waiting for a response.
  let ended = false;
  terminal.on('close', () => {
    ended = true;
  });
  terminal.setPrompt(bold('> '));
  terminal.prompt();
  for await (const line of terminal as Interface & AsyncIterable<string>) {
    const text = line.trim();
    if (text === '/exit' || text === '/quit') break;
    if (text === '/reset') {
      history = [...opening];
      notes(dim('new conversation\n'));
    } else if (/^\/model(\s|$)/.test(text)) {
      model = await changeModel(peer, model, text.slice('/model'.length).trim());
    } else if (text.startsWith('/')) {
      notes(dim(`${COMMANDS}\n`));
    } else if (text !== '') {
      answering = new AbortController();
      history.push({ role: 'user', content: text });
      const answer = await send(peer, model, history, answering.signal);
      answering = null;
      // A message without a response is removed from the history, so that roles keep alternating.
      if (answer === '') {
        answered = false;
        history.pop();
      } else history.push({ role: 'assistant', content: answer });
    }
    if (stop.aborted) break;
    if (!ended) terminal.prompt();
  }
  terminal.close();
  return answered;
}

/**
 * Switches the model while keeping the conversation. Without a name, lists the models. Returns the model to use from
 * now on.
 */
async function changeModel(peer: Peer, model: string, wanted: string): Promise<string> {
  let models: Listed[];
  try {
    models = await modelsOf(peer);
  } catch (error) {
    notes(`${(error as Error).message}\n`);
    return model;
  }
  if (wanted !== '' && models.some(({ id }) => id === wanted)) {
    notes(dim(`switched to ${wanted}\n`));
    return wanted;
  }
  const list = models.map(({ id }) => (id === model ? `${id} (current)` : id)).join(', ');
  notes(dim(`${wanted === '' ? '' : `there is no model "${wanted}"; `}${list}\n`));
  return model;
}

/** Prints the response as it streams. Returns its text, without the reasoning. */
async function send(peer: Peer, model: string, history: readonly ChatMessage[], signal: AbortSignal): Promise<string> {
  let answer = '';
  let reasoned = false;
  try {
    for await (const piece of streamChat(
      { url: peer.url, key: await peer.key() },
      { model, messages: history },
      signal,
    )) {
      if (piece.reasoning !== '') {
        reasoned = true;
        notes(dim(piece.reasoning));
      }
      if (piece.content === '') continue;
      if (answer === '' && reasoned) notes('\n');
      answer += piece.content;
      process.stdout.write(piece.content);
    }
    process.stdout.write('\n');
  } catch (error) {
    notes(
      signal.aborted
        ? dim(' …stopped\n')
        : `\n${error instanceof TypeError ? unreachable(peer.url, error) : (error as Error).message}\n`,
    );
  }
  return answer;
}
