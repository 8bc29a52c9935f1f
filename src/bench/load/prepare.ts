// Determines the server properties that a load test needs: the model, the token counts of common words, and the name of
// the output-limit parameter. To do so, it sends a few requests that are not measured. They also verify that the server
// works.

import { LoadClient, refusal } from './client.js';
import type { Asked } from './client.js';
import { LoadError } from './load-error.js';
import { UNMEASURED, WORDS } from './text-maker.js';
import type { Target, TextMeasure, Turn, WorkloadSpec } from './types.js';

const ANSWER_WITHIN_MS = 30_000;
/** Number of words whose token counts are measured individually if some words are not single tokens. */
const MEASURED_WORDS = 40;
/** The smallest output limit that hosted models accept in the responses format. */
const PROBE_TOKENS = 16;

/** Adds `/v1` to a URL without a path. Throws LoadError. */
export function apiUrl(text: string): string {
  const given = /^[a-z]+:\/\//i.test(text) ? text : `http://${text}`;
  if (!URL.canParse(given) || !/^https?:$/.test(new URL(given).protocol))
    throw new LoadError(`"${text}" is not a URL such as http://127.0.0.1:8080/v1`);
  const url = new URL(given);
  if (url.pathname === '/') url.pathname = '/v1';
  return url.href.replace(/\/+$/, '');
}

type Fetched =
  | { readonly ok: true; readonly body: unknown }
  | { readonly ok: false; readonly status: number | null; readonly message: string };

async function get(url: string, headers: Readonly<Record<string, string>>, body?: object): Promise<Fetched> {
  try {
    const response = await fetch(url, {
      headers: { ...headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) return { ok: false, status: response.status, message: refusal(text, response.status) };
    return { ok: true, body: JSON.parse(text) as unknown };
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : (error as Error);
    return {
      ok: false,
      status: null,
      message: cause.message || (cause as NodeJS.ErrnoException).code || String(cause),
    };
  }
}

/** Names of the models listed by the server. Throws LoadError. */
export async function modelsOf(url: string, headers: Readonly<Record<string, string>>): Promise<string[]> {
  const answer = await get(`${url}/models`, headers);
  if (!answer.ok)
    throw new LoadError(
      `${url}/models: ${answer.status === null ? 'cannot be reached: ' : `${answer.status}: `}${answer.message}`,
    );
  const { data } = answer.body as { data?: { id?: unknown }[] };
  const names = Array.isArray(data) ? data.map(({ id }) => id).filter((id) => typeof id === 'string') : [];
  if (names.length === 0) throw new LoadError(`${url}/models: lists no models`);
  return names;
}

/** The parts of a workload's prompts that are not generated text. */
interface Around {
  readonly system: string | null;
  readonly schema: Turn['schema'];
}

/**
 * Sends a few requests similar to the workload's requests. If they fail, throws a LoadError with the server's
 * message.
 */
export async function prepare(
  target: Target,
  workload: Pick<WorkloadSpec, 'schema'> & { readonly prefixes?: object | null },
): Promise<{ target: Target; measure: TextMeasure }> {
  const around: Around = { system: workload.prefixes == null ? null : ' the', schema: workload.schema };
  const words = await measuredWords(target);
  const few = WORDS.slice(0, 20);
  const { asked, target: ready } = await probe(target, few, around);
  const cost = (list: readonly string[]): number =>
    list.reduce((sum, _, at) => sum + (words?.[at % words.length] ?? 1), 0);
  const counted = asked.answer.promptTokens;
  if (words !== null)
    return {
      target: ready,
      measure: {
        tokens: words,
        overhead:
          counted === null ? 0 : Math.max(0, counted - cost(few) - (around.system === null ? 0 : (words[0] ?? 1))),
        exact: true,
      },
    };
  if (counted === null) return { target: ready, measure: UNMEASURED };
  // If the server has no tokenizer endpoint, the number of tokens per word is derived from the token count of a prompt
  // with a hundred additional words.
  const many = [...few, ...WORDS.slice(20, 120)];
  const { asked: longer } = await probe(ready, many, around);
  const perWord = Math.max(0.25, ((longer.answer.promptTokens ?? counted + 100) - counted) / 100);
  return {
    target: ready,
    measure: {
      tokens: WORDS.map(() => perWord),
      overhead: Math.max(0, Math.round(counted - 20 * perWord)),
      exact: false,
    },
  };
}

async function probe(
  target: Target,
  words: readonly string[],
  around: Around,
): Promise<{ asked: Asked; target: Target }> {
  const turn: Turn = {
    text: ` ${words.join(' ')}`,
    maxTokens: PROBE_TOKENS,
    schema: around.schema,
    thinkMs: 0,
    promptTokens: null,
  };
  const client = new LoadClient(target, () => performance.now());
  try {
    const asked = await client.ask(client.write({ system: around.system, before: [], turn, stored: null }));
    if (asked.error === null) return { asked, target };
    if (
      asked.error.kind === 'http_400' &&
      target.capField === 'max_tokens' &&
      asked.error.message.includes('max_completion_tokens')
    )
      return await probe({ ...target, capField: 'max_completion_tokens' }, words, around);
    throw new LoadError(
      `${target.url} failed on a ${target.dialect} request: ${asked.error.kind}: ${asked.error.message}`,
    );
  } finally {
    client.close();
  }
}

/**
 * Returns the token counts of words with a preceding space: of all words if each of them is a single token, otherwise
 * only of the first few. Null if the server has no tokenizer endpoint.
 */
async function measuredWords(target: Target): Promise<number[] | null> {
  const url = `${target.url.replace(/\/v1$/, '')}/tokenize`;
  const count = async (text: string): Promise<number | null> => {
    // vLLM and Monolith call the text `prompt`, llama-server calls it `content`.
    const answer = await get(url, target.headers, {
      model: target.model,
      prompt: text,
      content: text,
      add_special_tokens: false,
      add_special: false,
    });
    const tokens = answer.ok ? (answer.body as { tokens?: unknown }).tokens : undefined;
    return Array.isArray(tokens) ? tokens.length : null;
  };
  const alone = await count(' the');
  const all = alone === null ? null : await count(` the ${WORDS.join(' ')}`);
  if (alone === null || all === null) return null;
  if (all - alone === WORDS.length) return WORDS.map(() => 1);
  const each: number[] = [];
  for (const word of WORDS.slice(0, MEASURED_WORDS)) {
    const both = await count(` the ${word}`);
    if (both === null) return null;
    each.push(Math.max(1, both - alone));
  }
  return each;
}
