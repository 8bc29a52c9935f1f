// The `monolith cache` command: shows and clears the prompt cache of the server that uses the data directory, and pins
// prompts.

import { readFileSync } from 'node:fs';
import { noWords, UsageError } from '../config/arguments.js';
import type { OwnFlags } from '../config/arguments.js';
import { showBytes } from '../config/kinds.js';
import { printable } from '../hub/hub-error.js';
import {
  MAX_PINNED_CHARACTERS,
  type CachedModel,
  type PinnedPrompt,
  type PromptCacheCleared,
  type PromptCacheCommand,
  type PromptCacheState,
} from '../shared/wire/prompt-cache.js';
import { commandConfig } from './command-config.js';
import { commandName } from './command-name.js';
import { askedForHelp, table } from './output.js';
import { promptCacheAnswer } from './server-status.js';

const HELP = `
Usage: monolith cache [status] [--json]
       monolith cache clear [--model MODEL] [--organization ORG]
       monolith cache warm --model MODEL (--file PROMPT | --request FILE) [--organization ORG]
       monolith cache unpin ID

Works on the prompt cache of the server that uses the data directory. With several servers, each has its own.

status shows, for each model, how many prompt tokens came from memory and from disk since the server started, what is
stored on disk, and the pinned prompts. The exit status is 1 if no server runs.

clear empties the cache in memory and on disk. Pages of running requests and of pinned prompts stay.

warm computes the system prompt in a text file (- for standard input) and pins it: its KV pages stay in memory and on
disk, also across restarts, until unpin. It requires the setting kv.disk. Requests of the same organization with this
system prompt and without tools start with it. With --request, FILE is a chat completions request in JSON: its system
messages, tools, tool_choice, response_format, reasoning_effort and chat_template_kwargs are pinned, and other fields are
refused. MODEL may be a LoRA adapter. A prompt is pinned for one organization, because organizations never share cached
prompts. ORG is an ID or a name (default: the server's first organization). If some pages are not on disk after 20
seconds, the state is "partial" and the exit status is 1; the prompt stays pinned, and the server keeps trying.

Examples:
  monolith cache
  monolith cache warm --model qwen3-4b --file support.txt --organization Support
  monolith cache unpin pin_0123456789abcdef01
  monolith cache clear --organization Research
`;

export const FLAGS: OwnFlags = {
  '--json': 'switch',
  '--model': 'value',
  '--file': 'value',
  '--request': 'value',
  '--organization': 'value',
};

const ACTIONS = ['status', 'clear', 'warm', 'unpin'];

export async function cache(argv: string[]): Promise<number> {
  if (askedForHelp(argv, HELP)) return 0;
  const { config, values, words } = commandConfig(argv, FLAGS);
  const [action = 'status', ...others] = words;
  if (!ACTIONS.includes(action))
    throw new UsageError(`cache: expected ${ACTIONS.slice(0, -1).join(', ')} or unpin, not "${printable(action)}"`);
  const command = commandOf(action, others, {
    model: values.get('--model') ?? null,
    organization: values.get('--organization') ?? null,
    file: values.get('--file') ?? null,
    request: values.get('--request') ?? null,
  });
  const answer = await promptCacheAnswer(config.data_dir, command);
  if (answer === null) {
    process.stderr.write(`monolith: no server uses ${config.data_dir}; "${commandName()} serve" starts one\n`);
    return 1;
  }
  if (!answer.ok) {
    process.stderr.write(`monolith: ${printable(answer.message)}\n`);
    return 1;
  }
  const { result } = answer;
  process.stdout.write(values.has('--json') ? `${JSON.stringify(result)}\n` : textOf(result));
  if (action !== 'warm' || 'object' in result || result.state === 'pinned') return 0;
  process.stderr.write(
    `monolith: the prompt is pinned, but some of its pages are not on disk yet; see "${commandName()} cache"\n`,
  );
  return 1;
}

interface Given {
  readonly model: string | null;
  readonly organization: string | null;
  readonly file: string | null;
  readonly request: string | null;
}

function commandOf(
  action: string,
  words: readonly string[],
  { model, organization, file, request }: Given,
): PromptCacheCommand {
  const [id, ...others] = words;
  if (action !== 'unpin') noWords(words);
  if (action !== 'warm' && file !== null) throw new UsageError(`cache: ${action} has no flag --file`);
  if (action !== 'warm' && request !== null) throw new UsageError(`cache: ${action} has no flag --request`);
  if (action === 'unpin') {
    noWords(others);
    if (id === undefined) throw new UsageError('cache: unpin needs the ID of a pinned prompt');
    return { type: 'unpin', id };
  }
  if (action === 'clear') return { type: 'clear', model, organization };
  if (action === 'status') return { type: 'state' };
  if (model === null) throw new UsageError('cache: warm needs a model (--model)');
  if ((file === null) === (request === null))
    throw new UsageError('cache: warm needs a file with the system prompt (--file) or with a request (--request)');
  const pin = { type: 'warm', model, organization } as const;
  if (request !== null) return { ...pin, prompt: null, request: requestIn(request) };
  return { ...pin, prompt: textIn('--file', file as string), request: null };
}

/** Reads a file and removes the line break that editors add at the end. */
function textIn(flag: string, file: string): string {
  let text: string;
  try {
    text = readFileSync(file === '-' ? 0 : file, 'utf8').replace(/\r?\n$/, '');
  } catch (error) {
    throw new UsageError(`cache: ${flag}: ${(error as Error).message}`);
  }
  if (text.trim() === '') throw new UsageError(`cache: ${flag}: ${file} is empty`);
  if (text.length > MAX_PINNED_CHARACTERS)
    throw new UsageError(
      `cache: ${flag}: ${file} has ${text.length} characters, at most ${MAX_PINNED_CHARACTERS} are allowed`,
    );
  return text;
}

function requestIn(file: string): Record<string, unknown> {
  let body: unknown;
  try {
    body = JSON.parse(textIn('--request', file));
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new UsageError(`cache: --request: ${file} is not JSON: ${error.message}`);
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw new UsageError(`cache: --request: ${file} is not a JSON object`);
  return body as Record<string, unknown>;
}

function textOf(result: PromptCacheState | PromptCacheCleared | PinnedPrompt): string {
  if (!('object' in result)) return `${result.id}  ${pinText(result)}\n`;
  if (result.object === 'prompt_cache') return stateText(result);
  const { models, disk_records: records, disk_bytes: bytes } = result;
  const memory = models.length === 0 ? 'no model is loaded' : `emptied in memory: ${models.join(', ')}`;
  return `${memory}; erased on disk: ${records} records, ${showBytes(bytes)}\n`;
}

export function stateText({ disk, models, pinned, max_pinned: max }: PromptCacheState): string {
  const head = ['MODEL', 'CACHED PAGES', 'PROMPT TOKENS', 'FROM MEMORY', 'FROM DISK', 'SAVED', 'ON DISK'];
  const lines = [table([head, ...models.map(rowOf)])];
  lines.push(
    disk === null
      ? '\nKV pages are not kept on disk (kv.disk), so tokens are not counted here.\n'
      : `\nOn disk: ${showBytes(disk.bytes)} of ${showBytes(disk.max_bytes)} (kv.disk ${disk.mode})\n`,
  );
  if (disk !== null) lines.push(`Pinned prompts: ${pinned.length} of ${max}\n`);
  if (pinned.length > 0)
    lines.push(`\n${table([['ID', 'MODEL', 'ORGANIZATION', 'TOKENS', 'STATE', 'PROMPT'], ...pinned.map(pinRow)])}`);
  return lines.join('');
}

function rowOf({ names, file, memory, disk, use }: CachedModel): string[] {
  const share = (tokens: number): string =>
    use.prompt_tokens === 0 ? '-' : `${tokens} (${Math.round((100 * tokens) / use.prompt_tokens)} %)`;
  return [
    names.length === 0 ? file : names.join(', '),
    memory === null ? 'not loaded' : `${memory.cached_pages} of ${memory.pages}`,
    String(use.prompt_tokens),
    share(use.memory_tokens),
    share(use.disk_tokens),
    `${use.saved_s.toFixed(1)} s`,
    showBytes(disk.bytes),
  ];
}

const pinRow = (pin: PinnedPrompt): string[] => [
  pin.id,
  pin.model,
  printable(pin.organization_name ?? pin.organization),
  pin.tokens === null ? '-' : String(pin.tokens),
  pin.problem === null ? pin.state : `${pin.state}: ${printable(pin.problem)}`,
  printable(pin.start.replaceAll(/\s+/g, ' ').slice(0, 40)) + (pin.tools === 0 ? '' : ` (${pin.tools} tools)`),
];

const pinText = ({
  model,
  organization,
  organization_name: name,
  tokens,
  memory_tokens: memory,
  disk_tokens: disk,
  state,
}: PinnedPrompt): string =>
  `${state}: ${tokens ?? 0} tokens for ${printable(name ?? organization)} on ${model} (${memory} in memory, ${disk} on disk)`;
