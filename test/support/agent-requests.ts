// Requests of coding agents, reduced to their structure: every text that an agent's authors wrote is replaced.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../e2e/monolith.js';

export interface AgentRequest {
  path: string;
  headers: Record<string, string>;
  body: unknown;
}

export const agentNames = ['codex', 'claude-code', 'qwen-code', 'opencode', 'pi', 'continue'] as const;
export type AgentName = (typeof agentNames)[number];

const fileOf = (folder: string, agent: string): string => join(folder, `${agent}.json`);
const folder = join(root, 'test', 'data', 'agents');

export const agentRequests = (agent: AgentName): AgentRequest[] =>
  JSON.parse(readFileSync(fileOf(folder, agent), 'utf8')) as AgentRequest[];

/** Writes the requests of an agent, without its texts. */
export function recordAgent(into: string, agent: string, requests: readonly AgentRequest[]): void {
  const reduced = requests.map(({ path, headers, body }) => ({
    path,
    headers: Object.fromEntries(KEPT_HEADERS.flatMap((name) => (headers[name] ? [[name, headers[name]]] : []))),
    body: withoutTexts(body, ''),
  }));
  const ids: string[] = [];
  const text = JSON.stringify(reduced).replace(UUIDS, (id) => {
    if (!ids.includes(id)) ids.push(id);
    return `00000000-0000-4000-8000-${String(ids.indexOf(id)).padStart(12, '0')}`;
  });
  writeFileSync(fileOf(into, agent), `${text}\n`);
}

/** Headers that can change how a request is read. */
const KEPT_HEADERS = ['anthropic-beta', 'anthropic-version', 'openai-beta', 'x-stainless-helper-method'];
/** Lists whose entries are names. */
const NAMES = new Set(['enum', 'required', 'include', 'betas']);
/** Members that contain text written by a person or the agent, or that identify a machine. */
const TEXTS = new Set([
  'text',
  'content',
  'description',
  'instructions',
  'system',
  'title',
  'thinking',
  'user_id',
  'default',
]);
const IS_NAME = /^[\w.:+-]{1,80}$/;
const UUIDS = /[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}/g;

function withoutTexts(value: unknown, name: string): unknown {
  if (typeof value === 'string') return stringOf(value, name);
  if (Array.isArray(value)) return value.map((entry) => withoutTexts(entry, name));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, withoutTexts(member, key)]));
}

function stringOf(value: string, name: string): string {
  if (name === '$schema') return value;
  if (name === 'arguments') return '{}';
  if (name === 'definition') return 'start: /(.|\\n)+/';
  if (value === '' || (NAMES.has(name) && value.length <= 80)) return value;
  return !TEXTS.has(name) && IS_NAME.test(value) ? value : 'Text.';
}
