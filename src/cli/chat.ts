// monolith chat: a conversation in the terminal, streamed over HTTP: from the server named by --url, or
// the one that runs on the data folder, or one started here for as long as the conversation lasts.

import { createInterface } from 'node:readline';
import type { Interface } from 'node:readline';
import { Accounts } from '../accounts/accounts.js';
import { loadConfig } from '../config.js';
import type { Config } from '../config.js';
import { startServer } from '../server.js';
import type { Server } from '../server.js';
import { readServerRecord } from '../storage/data-dir-lock.js';
import { openStore } from '../storage/lmdb-store.js';
import { createTelemetry } from '../telemetry/telemetry.js';
import { streamChat, unreachable } from './chat-stream.js';
import type { ChatMessage } from './chat-stream.js';
import { askedForHelp, noWords, ownFlags, UsageError } from './output.js';

const HELP = `
Usage: monolith chat [--model NAME | --model NAME=PATH] [--url URL --api-key KEY] [--system TEXT]

Talks to the server at --url, else to the one that runs on the data folder, else starts the models here.
In the conversation: /reset forgets it, /exit or Ctrl-D ends it, Ctrl-C stops the answer.
`;

const FLAGS = { '--url': true, '--model': true, '--system': true };

// A key made for a conversation is only good for as long as one lasts.
const KEY_LIFE_MS = 24 * 3_600_000;

export interface Peer { url: string; key: string; close(): Promise<void> }

export async function chat(argv: string[]): Promise<number> {
  if (askedForHelp(argv, HELP)) return 0;
  const { values } = ownFlags(argv, FLAGS);
  // --model NAME names a model of the server; --model NAME=FILE is the setting.
  const wanted = values.get('--model')?.includes('=') === true ? undefined : values.get('--model');
  const own = { '--url': true, '--system': true, ...(wanted === undefined ? {} : { '--model': true }) };
  const { config, rest } = loadConfig({ argv }, own);
  noWords(ownFlags(rest, FLAGS).words);

  const peer = await findPeer(values.get('--url'), config);
  try {
    const model = await chooseModel(peer, wanted ?? config.model[0]?.name);
    const system = values.get('--system');
    await converse(peer, model, system === undefined ? [] : [{ role: 'system', content: system }]);
    return 0;
  } finally {
    await peer.close();
  }
}

async function findPeer(url: string | undefined, config: Config): Promise<Peer> {
  const none = async (): Promise<void> => undefined;
  if (url !== undefined) {
    if (config.api_key === null) throw new UsageError('chat: --url needs --api-key, or MONOLITH_API_KEY');
    return { url: url.replace(/\/+$/, '').replace(/\/v1$/, ''), key: config.api_key, close: none };
  }
  const record = readServerRecord(config.data_dir);
  if (record !== null && config.model.length === 0 && await answers(record.url)) {
    return { url: record.url, key: config.api_key ?? await temporaryKey(config), close: none };
  }
  if (process.stderr.isTTY) process.stderr.write('Loading …\r');
  const server: Server = await startServer(
    { ...config, host: '127.0.0.1', port: 0 },
    { telemetry: createTelemetry({ format: 'text', level: 'error' }) },
  );
  const { secret } = await server.accounts.createKey({ name: 'monolith chat', expiresAt: new Date(Date.now() + KEY_LIFE_MS) });
  return { url: server.url, key: secret, close: () => server.close() };
}

async function answers(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/livez`, { signal: AbortSignal.timeout(2000) })).ok;
  } catch {
    return false;
  }
}

// Whoever can read the data folder may make keys anyway.
async function temporaryKey(config: Config): Promise<string> {
  const store = await openStore(config.data_dir);
  const accounts = new Accounts(store);
  try {
    return (await accounts.createKey({ name: 'monolith chat', expiresAt: new Date(Date.now() + KEY_LIFE_MS) })).secret;
  } finally {
    await accounts.close();
    await store.close();
  }
}

async function chooseModel(peer: Peer, wanted: string | undefined): Promise<string> {
  let response: Response;
  try {
    response = await fetch(`${peer.url}/v1/models`, { headers: { authorization: `Bearer ${peer.key}` } });
  } catch (error) {
    throw new UsageError(`chat: ${unreachable(peer.url, error)}`, error);
  }
  if (!response.ok) throw new UsageError(`chat: ${peer.url} answered ${response.status} to the question which models it has`);
  const body = await response.json().catch(() => null) as { data?: { id: string }[] } | null;
  if (!Array.isArray(body?.data)) throw new UsageError(`chat: ${peer.url} is not the address of a model server`);
  const names = body.data.map(({ id }) => id);
  const model = wanted ?? names[0];
  if (model === undefined || !names.includes(model)) throw new UsageError(`chat: ${model === undefined ? 'the server has no model' : `there is no model "${model}"`}; it serves ${names.join(', ')}`);
  return model;
}

const dim = (text: string): string => (process.stdout.isTTY ? `\u001b[2m${text}\u001b[22m` : text);
const bold = (text: string): string => (process.stdout.isTTY ? `\u001b[1m${text}\u001b[22m` : text);

async function converse(peer: Peer, model: string, opening: readonly ChatMessage[]): Promise<void> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout, terminal: process.stdin.isTTY === true });
  process.stdout.write(`${bold(model)} at ${peer.url}  ${dim('/reset  /exit')}\n`);
  let history = [...opening];
  let answering: AbortController | null = null;
  terminal.on('SIGINT', () => {
    if (answering !== null) answering.abort();
    else terminal.close();
  });
  terminal.setPrompt(bold('> '));
  terminal.prompt();
  for await (const line of terminal as Interface & AsyncIterable<string>) {
    const text = line.trim();
    if (text === '/exit' || text === '/quit') break;
    if (text === '/reset') {
      history = [...opening];
      process.stdout.write(dim('forgotten\n'));
    } else if (text.startsWith('/')) {
      process.stdout.write(dim('/reset forgets the conversation, /exit ends it\n'));
    } else if (text !== '') {
      answering = new AbortController();
      history.push({ role: 'user', content: text });
      const answer = await say(peer, model, history, answering.signal);
      answering = null;
      // A question without any answer is taken back, so that roles keep alternating.
      if (answer === '') history.pop();
      else history.push({ role: 'assistant', content: answer });
    }
    terminal.prompt();
  }
  terminal.close();
}

/** Prints the answer as it comes; returns its text, without the reasoning. */
async function say(peer: Peer, model: string, history: readonly ChatMessage[], signal: AbortSignal): Promise<string> {
  let answer = '';
  let reasoned = false;
  try {
    for await (const piece of streamChat(peer, { model, messages: history }, signal)) {
      if (piece.reasoning !== '') {
        reasoned = true;
        process.stdout.write(dim(piece.reasoning));
      }
      if (piece.content === '') continue;
      if (answer === '' && reasoned) process.stdout.write('\n');
      answer += piece.content;
      process.stdout.write(piece.content);
    }
    process.stdout.write('\n');
  } catch (error) {
    process.stdout.write(signal.aborted ? dim(' …stopped\n') : `\n${error instanceof TypeError ? unreachable(peer.url, error) : (error as Error).message}\n`);
  }
  return answer;
}
