// Tests a provider other than the local engine. Its prompt size is an estimate until the generation starts. Limits,
// responses and usage records are checked through the real routes on a real server and database.
import t from 'tap';
import { LmdbCompletionStore } from '../../src/storage/lmdb/completions/completion-store.js';
import { LmdbConversationStore } from '../../src/storage/lmdb/conversations/conversation-store.js';
import { LocalAdmission } from '../../src/admission/local-admission.js';
import { configWith } from '../../src/config/load.js';
import { apiError } from '../../src/shared/errors.js';
import { ImageBudget } from '../../src/generation/images/held-images.js';
import type { RequestContext, PreparedGeneration, Provider, RunningGeneration } from '../../src/generation/provider.js';
import type { ServedModel } from '../../src/generation/served-models.js';
import type { GenerationEvent, GenerationRequest } from '../../src/generation/types.js';
import { chatCompletionsRoute } from '../../src/protocol/chat-completions/routes.js';
import { PROMPT_MEMORY_BYTES, PromptMemory } from '../../src/protocol/prompt-cache/prompt-memory.js';
import type { GenerationDeps } from '../../src/protocol/admit.js';
import { messagesRoutes } from '../../src/protocol/messages/routes.js';
import { BackgroundResponses } from '../../src/protocol/responses/background.js';
import { responsesRoutes } from '../../src/protocol/responses/routes.js';
import { RunningResponses } from '../../src/protocol/responses/stored-running.js';
import { RunningGenerations } from '../../src/protocol/running-generations.js';
import { KeyRing } from '../../src/accounts/sealing/key-ring.js';
import { KeySealer } from '../../src/accounts/sealing/key-sealer.js';
import type { FinishedUsage } from '../../src/shared/usage-sink.js';
import { createTelemetry } from '../../src/telemetry/telemetry.js';
import { LmdbUsageStore } from '../../src/storage/lmdb/usage/usage-store.js';
import { UsageRecorder } from '../../src/usage/usage-recorder.js';
import { eventually } from '../e2e/monolith.js';
import { startRoutes } from '../http/running-server.js';
import { openResponses } from '../storage/records.js';

const TPM = 10_000;
const CAP = 100;

/** The request's text determines the provider's behavior: "<estimate> <actual number> <course>". */
type Course =
  | 'answers'
  | 'refuses'
  | 'fails at once'
  | 'fails after the start'
  | 'fails midway'
  | 'waits'
  | 'stalls'
  | 'stalls in its second choice'
  | 'holds everything back';

/**
 * Generates "one two" as two tokens per choice. Reports the estimated prompt size first, and the actual prompt size
 * after the start.
 */
class Elsewhere implements Provider {
  readonly contextWindow = 4_096;
  readonly maxOutputTokens = 1_000;
  readonly fingerprint = 'fp_0123456789';
  readonly efforts = ['none'] as const;
  readonly decodesImages = false;
  cancelled = 0;
  /** Number of generations that have sent all their events. */
  silent = 0;
  started = 0;

  check(): void {}

  async prepare(request: GenerationRequest, _asker: RequestContext): Promise<PreparedGeneration> {
    const { n } = request;
    const { estimate, actual, course } = read(request);
    return {
      promptTokens: { tokens: estimate, exact: false },
      maxTokens: Math.min(request.maxTokens ?? Infinity, this.maxOutputTokens),
      cappedByContext: false,
      n,
      ignoredKeywords: [],
      start: (onEvent) => {
        this.started++;
        if (course === 'refuses')
          throw apiError('capacity_exhausted', 'The server elsewhere is busy.', null, { retryAfterMs: 3_000 });
        return this.#play([...eventsOf(course, actual, n)], onEvent);
      },
    };
  }

  async count(request: GenerationRequest): Promise<{ tokens: number; exact: boolean }> {
    return { tokens: read(request).estimate, exact: false };
  }

  /** Sends one event per event-loop turn. */
  #play(events: GenerationEvent[], onEvent: (event: GenerationEvent) => void): RunningGeneration {
    let isOver = false;
    const next = (): void => {
      if (isOver) return;
      const event = events.shift();
      if (event === undefined) {
        this.silent++;
        return;
      }
      onEvent(event);
      setImmediate(next);
    };
    setImmediate(next);
    return {
      cancel: () => {
        if (!isOver) this.cancelled++;
        isOver = true;
      },
    };
  }
}

function read({ messages }: GenerationRequest): { estimate: number; actual: number; course: Course } {
  const content = messages.at(-1)?.content;
  const text =
    typeof content === 'string'
      ? content
      : (content ?? []).map((part) => (part.type === 'text' ? part.text : '')).join('');
  const [, estimate, actual, course] = /^(\d+) (\d+) (.*)$/.exec(text) ?? [];
  return { estimate: Number(estimate), actual: Number(actual), course: course as Course };
}

function* eventsOf(course: Course, promptTokens: number, n: number): Generator<GenerationEvent> {
  const failed: GenerationEvent = { type: 'failed', code: 'engine_error', message: 'the connection broke' };
  if (course === 'waits') return;
  if (course === 'fails at once') return yield failed;
  yield { type: 'started', promptTokens, cachedTokens: 5, queueMs: 1 };
  if (course === 'fails after the start') return yield failed;
  if (course === 'holds everything back') return yield { ...finished, choice: 0, completionTokens: 4 };
  for (let choice = 0; choice < n; choice++) {
    yield { type: 'text', choice, section: 'content', text: 'one', tokens: 1, logprobs: null };
    if (course === 'fails midway') return yield failed;
    if (course === 'stalls' || (course === 'stalls in its second choice' && choice === 1)) return;
    yield { type: 'text', choice, section: 'content', text: ' two', tokens: 1, logprobs: null };
    yield { ...finished, choice, completionTokens: course === 'answers' ? 2 : 3 };
  }
}

const finished = {
  type: 'finished',
  reason: 'end_of_turn',
  stopString: null,
  reasoningTokens: 0,
  calls: 0,
  timings: { prefillMs: 1, decodeMs: 1 },
} as const;

const elsewhere = new Elsewhere();
const model: ServedModel = {
  name: 'far',
  recordedAs: 'far',
  asked: 'far',
  lifecycle: { state: 'active', deprecatedAt: null, retiresAt: null, successor: null },
  sampling: { temperature: 1, top_p: 1, top_k: 0, min_p: 0, repetition_penalty: 1 },
  ensureLoaded: () => Promise.resolve(),
  ready: () => elsewhere,
};

const config = configWith({ limits: { tpm: TPM, rpm: null } });
const opened = await openResponses();
const telemetry = createTelemetry({ format: 'json', level: 'silent' });
const usage = new UsageRecorder(new LmdbUsageStore(opened.store), telemetry.log);
// The clock stands still, so buckets do not refill, and the remaining amount is the limit minus the amount taken.
const admission = new LocalAdmission(config.limits, { now: () => 5_000_000_000_000n });
const generations = new RunningGenerations(
  { runEnds: async () => () => null, onChanged: () => () => undefined },
  (error) => {
    throw error;
  },
);
const sealer = new KeySealer(new KeyRing([Buffer.alloc(32, 1)]), ['far']);
const images = new ImageBudget(1, 1);
const generation: GenerationDeps = {
  models: { find: () => model },
  images: { hold: (organization) => images.open(organization, false), load: async (messages) => messages },
  admission,
  telemetry,
  usage,
  requests: { textCharacters: 0, add: () => undefined },
  limits: { maxN: 8, maxTools: 128 },
  generations,
  prompts: new PromptMemory(new SharedArrayBuffer(PROMPT_MEMORY_BYTES)),
};
const background = new BackgroundResponses(opened.responses, telemetry);
const server = await startRoutes([
  chatCompletionsRoute({
    ...generation,
    reasoningField: 'both',
    completions: new LmdbCompletionStore(opened.store, config.responses),
  }),
  ...messagesRoutes({ ...generation, sealer, foreignThinking: 'reject', settings: config.responses }),
  ...responsesRoutes({
    ...generation,
    conversations: new LmdbConversationStore(opened.store, config.responses),
    sealer,
    responses: opened.responses,
    settings: config.responses,
    background,
    running: new RunningResponses(),
  }),
]);
t.teardown(async () => {
  generations.close();
  await server.close();
  await background.close();
  await usage.close();
  void telemetry.close();
  await opened.close();
});
const identity = must(await server.accounts.authenticate(server.key));

function must<T>(value: T | null | undefined): T {
  if (value === null || value === undefined) throw new Error('missing');
  return value;
}

interface Format {
  path: string;
  body(text: string, more?: object): object;
  inputTokens(answer: string): number | undefined;
}

const last = (answer: string, field: RegExp): number | undefined =>
  [...answer.matchAll(field)].map(([, number]) => Number(number)).at(-1);
const formats: readonly Format[] = [
  {
    path: '/v1/chat/completions',
    inputTokens: (answer) => last(answer, /"prompt_tokens":(\d+)/g),
    body: (text, more) => ({
      model: 'far',
      messages: [{ role: 'user', content: text }],
      max_completion_tokens: CAP,
      ...more,
      ...(more !== undefined && 'stream' in more ? { stream_options: { include_usage: true } } : {}),
    }),
  },
  {
    path: '/v1/messages',
    body: (text, more) => ({ model: 'far', messages: [{ role: 'user', content: text }], max_tokens: CAP, ...more }),
    // Cached tokens are reported separately.
    inputTokens: (answer) => {
      const fresh = last(answer, /"input_tokens":(\d+)/g);
      return fresh === undefined ? undefined : fresh + 5;
    },
  },
  {
    path: '/v1/responses',
    body: (text, more) => ({ model: 'far', input: text, max_output_tokens: CAP, store: false, ...more }),
    inputTokens: (answer) => last(answer, /"input_tokens":(\d+)/g),
  },
];

/** Tokens taken from the organization's bucket. */
const taken = (): number =>
  TPM - Number(must(Object.fromEntries(admission.headers(identity, 'far', 'chat'))['x-ratelimit-remaining-tokens']));

/** Returns the usage records that `work` produces. */
async function told(work: () => Promise<unknown>): Promise<FinishedUsage[]> {
  const rows = (): FinishedUsage[] =>
    [...opened.store.table<FinishedUsage>('usage-rows').range()].map(({ value }) => value);
  const before = new Set(rows().map(({ requestId }) => requestId));
  await work();
  await eventually(() => generations.size === 0, 10_000);
  await usage.flush();
  return rows().filter(({ requestId }) => !before.has(requestId));
}

for (const { path, body, inputTokens } of formats) {
  for (const stream of [false, true]) {
    const more = stream ? { stream } : {};
    for (const [estimate, actual] of [
      [500, 40],
      [40, 500],
    ] as const) {
      t.test(
        `${path}${stream ? ', streamed' : ''}: settles an estimate of ${estimate} with the actual ${actual}`,
        async (t) => {
          const before = taken();
          let answer = '';
          const rows = await told(async () => {
            const response = await server.post(path, body(`${estimate} ${actual} answers`, more));
            const remaining =
              response.headers.get('x-ratelimit-remaining-tokens') ??
              response.headers.get('anthropic-ratelimit-tokens-remaining');
            t.equal(TPM - Number(remaining) - before, estimate + CAP, 'the estimate is reserved');
            answer = await response.text();
            t.equal(response.status, 200, answer);
          });
          t.match(answer, /two/);
          t.equal(inputTokens(answer), actual, 'the response reports the actual prompt size');
          t.equal(taken() - before, actual + 2, 'the actual prompt size is charged');
          t.match(rows, [{ status: 'completed', inputTokens: actual, cachedTokens: 5, outputTokens: 2 }]);
        },
      );
    }
  }

  for (const course of ['refuses', 'fails at once', 'fails after the start'] as const) {
    t.test(`${path}: nothing is charged if the provider ${course}`, async (t) => {
      const before = taken();
      const rows = await told(async () => {
        const response = await server.post(path, body(`500 40 ${course}`));
        t.equal(response.status, course === 'refuses' ? 503 : 500);
        t.match(await response.json(), {
          error: { code: course === 'refuses' ? 'capacity_exhausted' : 'model_error' },
        });
        t.equal(response.headers.get('retry-after'), course === 'refuses' ? '3' : null);
      });
      t.equal(taken(), before);
      t.same(rows, []);
    });
  }

  t.test(`${path}: a generation that fails midway is charged with its actual tokens`, async (t) => {
    const before = taken();
    const rows = await told(async () => void (await (await server.post(path, body('500 40 fails midway'))).text()));
    t.equal(taken() - before, 40 + 1);
    t.match(rows, [{ status: 'failed', inputTokens: 40, outputTokens: 1, errorCode: 'model_error' }]);
  });

  for (const [course, input, output] of [
    ['waits', 500, 0],
    ['stalls', 40, 1],
  ] as const) {
    t.test(`${path}: a client disconnects from a provider that ${course}`, async (t) => {
      const before = taken();
      const { cancelled } = elsewhere;
      const rows = await told(() => leave(path, body(`500 40 ${course}`)));
      t.equal(elsewhere.cancelled - cancelled, 1, "the provider's generation is cancelled");
      t.match(
        rows,
        [{ status: 'cancelled', inputTokens: input, outputTokens: output }],
        'the usage record contains the estimate if the actual size is not known',
      );
      t.equal(taken() - before, input + output);
    });
  }
}

/** Disconnects once the provider has sent all its events. */
async function leave(path: string, body: object): Promise<void> {
  const { silent } = elsewhere;
  const leaving = new AbortController();
  const response = fetch(server.url + path, {
    method: 'POST',
    signal: leaving.signal,
    headers: { 'content-type': 'application/json', authorization: `Bearer ${server.key}` },
    body: JSON.stringify(body),
  }).catch(() => undefined);
  await eventually(() => elsewhere.silent > silent, 10_000);
  leaving.abort();
  await response;
}

t.test('a client that disconnects during its monthly lookup is not charged', async (t) => {
  const { path, body } = formats[0] as Format;
  let answer: (tokens: number) => void = () => undefined;
  let looked = false;
  const slow = new LocalAdmission(config.limits, {
    storedMonth: () =>
      new Promise((resolve) => {
        looked = true;
        answer = resolve;
      }),
  });
  const capped = await startRoutes([
    chatCompletionsRoute({
      ...generation,
      admission: slow,
      reasoningField: 'both',
      completions: new LmdbCompletionStore(opened.store, config.responses),
    }),
  ]);
  t.teardown(() => capped.close());
  await capped.accounts.organizations.change(
    must(await capped.accounts.authenticate(capped.key)).organizationId,
    { monthlyTokenCap: 1_000 },
    null,
  );
  const { started } = elsewhere;
  const leaving = new AbortController();
  const response = fetch(capped.url + path, {
    method: 'POST',
    signal: leaving.signal,
    headers: { 'content-type': 'application/json', authorization: `Bearer ${capped.key}` },
    body: JSON.stringify(body('500 40 answers')),
  }).catch(() => undefined);
  t.ok(await eventually(() => looked));
  leaving.abort();
  await response;
  t.ok(await eventually(() => capped.http.inFlight === 0), 'the server has noticed the disconnect');
  t.same(
    await told(async () => {
      answer(0);
      for (let turns = 0; turns < 10; turns++) await new Promise(setImmediate);
    }),
    [],
  );
  t.equal(slow.unfinished(), 0);
  t.equal(elsewhere.started - started, 0);
});

t.test('each cancelled choice is counted by its end event, which may report more tokens than its events', async (t) => {
  const before = taken();
  const rows = await told(() =>
    leave('/v1/chat/completions', {
      model: 'far',
      n: 2,
      messages: [{ role: 'user', content: '500 40 stalls in its second choice' }],
    }),
  );
  t.match(rows, [{ status: 'cancelled', outputTokens: 3 + 1 }]);
  t.equal(taken() - before, 40 + 3 + 1);
});

t.test('a response that fails its format check is charged, although none of it was sent', async (t) => {
  const before = taken();
  let answer = '';
  const rows = await told(async () => {
    const response = await server.post('/v1/responses', {
      model: 'far',
      input: '500 40 holds everything back',
      stream: true,
      store: false,
      text: { format: { type: 'json_object' } },
    });
    answer = await response.text();
  });
  t.match(answer, /"type":"response.failed".*"output_tokens":4/);
  t.match(rows, [{ status: 'failed', outputTokens: 4 }]);
  t.equal(taken() - before, 40 + 4);
});
