// A conversation: reads messages and commands, sends the messages and prints the responses.

import { performance } from 'node:perf_hooks';
import { showBytes } from '../config/kinds.js';
import { commandName } from './command-name.js';
import { readImage } from './chat-image.js';
import { MessageInput, parseCommand, SETTABLE } from './chat-input.js';
import type { ChatCommand, SamplingField } from './chat-input.js';
import { modelsOf } from './chat-peer.js';
import type { Listed, Peer } from './chat-peer.js';
import { streamChat, unreachable } from './chat-stream.js';
import type { ChatMessage, ContentPart } from './chat-stream.js';
import { bold, ChatTerminal, dim, isInteractive, note } from './chat-terminal.js';

export const CHAT_COMMANDS = `  /model [NAME]        list the models, or switch to another model
  /system [TEXT]       show or set the system prompt; /system "" removes it
  /set [NAME [VALUE]]  list the sampling parameters, set one, or reset one to the model's default
  /image PATH [TEXT]   attach an image to the next message, or send it with TEXT
  /reset               start a new conversation
  /help                list the commands
  /exit                quit; Ctrl-D does the same
  """                  start or end a message of several lines; \\ at the end of a line continues it
  Ctrl-C               stop the current response`;

const COMMAND_NAMES = ['/model', '/system', '/set', '/image', '/reset', '/help', '/exit'];

export interface ChatOptions {
  readonly model: string;
  readonly models: readonly Listed[];
  readonly system: string | null;
  /** Path of the history file; null: no history. */
  readonly history: string | null;
  readonly stop: AbortSignal;
}

interface State {
  readonly peer: Peer;
  model: string;
  system: string | null;
  messages: ChatMessage[];
  fields: Partial<Record<SamplingField, number | string>>;
  /** Images to attach to the next message. */
  images: ContentPart[];
  answering: AbortController | null;
}

/** Returns whether every message got a response. */
export async function converse(peer: Peer, options: ChatOptions): Promise<boolean> {
  const { stop, models } = options;
  const state = stateOf(peer, options);
  let answered = true;
  if (stop.aborted) return answered;
  const terminal = new ChatTerminal(options.history, (line) => COMMAND_NAMES.filter((name) => name.startsWith(line)));
  const input = new MessageInput();
  note(`${bold(state.model)} at ${peer.url}  ${dim('/help lists the commands, /exit quits')}\n`);
  if (models.some(({ id, demonstration }) => id === state.model && demonstration === true))
    note(
      `${dim(`This is a small demonstration model. For full-size models: ${commandName()} models --recommended`)}\n`,
    );
  terminal.onInterrupt(() => {
    if (state.answering !== null) state.answering.abort();
    else terminal.close();
  });
  stop.addEventListener('abort', () => {
    state.answering?.abort();
    terminal.close();
  });
  try {
    for (terminal.prompt(false); !stop.aborted; terminal.prompt(input.isOpen)) {
      const line = await terminal.next();
      const message = line === null ? input.take() : input.push(line.text, line.isPasted);
      if (message === null) continue;
      const command = parseCommand(message);
      if (command?.name === 'exit') break;
      if (command !== null) answered = (await obey(state, command)) && answered;
      else if (message !== '') answered = (await say(state, message)) && answered;
      if (line === null) break;
    }
  } finally {
    terminal.close();
  }
  return answered;
}

/** Sends one message and prints the response. Returns whether there was a response. */
export async function askOnce(peer: Peer, options: ChatOptions, message: string): Promise<boolean> {
  const state = stateOf(peer, options);
  options.stop.addEventListener('abort', () => state.answering?.abort());
  return await say(state, message);
}

const stateOf = (peer: Peer, { model, system }: ChatOptions): State => ({
  peer,
  model,
  system,
  messages: [],
  fields: {},
  images: [],
  answering: null,
});

/** Carries out a command. Returns false if it sent a message that got no response. */
async function obey(state: State, command: ChatCommand): Promise<boolean> {
  switch (command.name) {
    case 'help':
      note(dim(`${CHAT_COMMANDS}\n`));
      break;
    case 'reset':
      state.messages = [];
      state.images = [];
      note(dim('new conversation\n'));
      break;
    case 'model':
      state.model = await changeModel(state, command.model);
      break;
    case 'system':
      if (command.text !== null) state.system = command.text === '' ? null : command.text;
      note(dim(`system prompt: ${state.system ?? 'none'}\n`));
      break;
    case 'set':
      set(state, command.field, command.value);
      break;
    case 'image':
      return await attach(state, command.path, command.text);
    case 'wrong':
      note(dim(`${command.problem}; /help lists the commands\n`));
      break;
    case 'exit':
      break;
  }
  return true;
}

function set({ fields }: State, field: SamplingField | null, value: number | string | null): void {
  if (field === null) {
    const names = Object.keys(SETTABLE) as SamplingField[];
    note(dim(`${names.map((name) => `${name} ${fields[name] ?? "(model's default)"}`).join('\n')}\n`));
    return;
  }
  if (value === null) delete fields[field];
  else fields[field] = value;
  note(dim(`${field} ${value ?? "(model's default)"}\n`));
}

async function attach(state: State, path: string, text: string): Promise<boolean> {
  try {
    const { url, bytes } = readImage(path);
    state.images.push({ type: 'image_url', image_url: { url } });
    if (text === '') note(dim(`attached ${path}, ${showBytes(bytes)}; it is sent with the next message\n`));
  } catch (error) {
    note(`${(error as Error).message}\n`);
    return false;
  }
  return text === '' || (await say(state, text));
}

/**
 * Switches the model while keeping the conversation. If no name is given, lists the models. Returns the model for the
 * following messages.
 */
async function changeModel({ peer, model }: State, wanted: string): Promise<string> {
  let models: Listed[];
  try {
    models = await modelsOf(peer);
  } catch (error) {
    note(`${(error as Error).message}\n`);
    return model;
  }
  if (wanted !== '' && models.some(({ id }) => id === wanted)) {
    note(dim(`switched to ${wanted}\n`));
    return wanted;
  }
  const list = models.map(({ id }) => (id === model ? `${id} (current)` : id)).join(', ');
  note(dim(`${wanted === '' ? '' : `there is no model "${wanted}"; `}${list}\n`));
  return model;
}

/** Sends a message with the attached images. Returns whether it got a response. */
async function say(state: State, text: string): Promise<boolean> {
  const content = state.images.length === 0 ? text : [...state.images, { type: 'text' as const, text }];
  state.messages.push({ role: 'user', content });
  state.answering = new AbortController();
  const answer = await send(state, state.answering.signal);
  state.answering = null;
  // A message without a response is removed, so that roles keep alternating. Its images stay attached.
  if (answer === '') {
    state.messages.pop();
    return false;
  }
  state.images = [];
  state.messages.push({ role: 'assistant', content: answer });
  return true;
}

/** Prints the response as it streams, and its speed. Returns its text, without the reasoning. */
async function send({ peer, model, system, messages, fields }: State, signal: AbortSignal): Promise<string> {
  const all: ChatMessage[] = system === null ? messages : [{ role: 'system', content: system }, ...messages];
  const sentAt = performance.now();
  let firstAt: number | null = null;
  let tokens: number | null = null;
  let answer = '';
  let reasoned = false;
  try {
    const request = { model, messages: all, ...fields };
    for await (const piece of streamChat({ url: peer.url, key: await peer.key() }, request, signal)) {
      tokens = piece.tokens ?? tokens;
      if (piece.reasoning !== '' || piece.content !== '') firstAt ??= performance.now();
      if (piece.reasoning !== '') {
        reasoned = true;
        note(dim(piece.reasoning));
      }
      if (piece.content === '') continue;
      if (answer === '' && reasoned) note('\n');
      answer += piece.content;
      process.stdout.write(piece.content);
    }
    process.stdout.write('\n');
    if (isInteractive() && firstAt !== null)
      note(dim(`${speed(tokens, firstAt - sentAt, performance.now() - firstAt)}\n`));
  } catch (error) {
    note(
      signal.aborted
        ? dim(' …stopped\n')
        : `\n${error instanceof TypeError ? unreachable(peer.url, error) : (error as Error).message}\n`,
    );
  }
  return answer;
}

/** `42 tokens, 31.2 tokens/s, first after 0.21 s`. The rate does not include the first token. */
export function speed(tokens: number | null, firstMs: number, restMs: number): string {
  const first = `first after ${(firstMs / 1_000).toFixed(2)} s`;
  if (tokens === null) return first;
  const count = tokens === 1 ? '1 token' : `${tokens} tokens`;
  return tokens < 2 || restMs <= 0
    ? `${count}, ${first}`
    : `${count}, ${(((tokens - 1) * 1_000) / restMs).toFixed(1)} tokens/s, ${first}`;
}
