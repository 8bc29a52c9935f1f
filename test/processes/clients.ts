// The rounds' clients, which run in the test's process. Each sends random requests, determined by its seed, to any of
// the processes, and records the responses in the history.
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from '../support/random.js';
import { events } from '../support/wire.js';
import type { Asked } from './check.js';
import { answerTo, promptOf, type Entry, type Operation, type What } from './history.js';
import { COUNT, MODELS, ORGANIZATIONS, type Service } from './service.js';

/** A client disconnects after waiting this long. */
const PATIENCE_MS = 10_000;
const QUIET_ATTEMPTS = 5;
const ACTIONS: readonly What[] = [
  'hold',
  'hold',
  'hold',
  'ask',
  'ask',
  'ask',
  'ask',
  'store',
  'store',
  'continue',
  'continue',
  'continue',
  'read',
  'read',
  'remove',
  'remove',
  'background',
  'background',
  'cancel',
  'replay',
  'foreign',
];
const FOREIGN = ['read', 'remove', 'cancel', 'items', 'continue'] as const;

interface Told {
  status: number | null;
  code: string | null;
  body: Body;
}
interface Body {
  id?: string;
  status?: string;
  output?: { content?: { text?: string }[] }[];
  error?: { code?: string } | null;
  choices?: unknown[];
}

const textOf = ({ output = [] }: Body): string =>
  output.flatMap(({ content = [] }) => content.map(({ text = '' }) => text)).join('');

export class Clients {
  readonly history: Entry[] = [];
  /** Number of operations completed in this round. */
  done = 0;
  readonly asked = new Map<number, Asked>();
  /** The acknowledged responses from all rounds. */
  readonly made: Operation[] = [];
  #n = 0;
  #keys: readonly string[] = [];
  #round = 0;

  constructor(private readonly service: Service) {}

  begin(round: number, keys: readonly string[]): void {
    [this.#round, this.#keys, this.done] = [round, keys, 0];
  }

  /** Performs `times` operations one after another. Never rejects. */
  async work(random: Random, times: number): Promise<void> {
    for (let left = times; left > 0; left--) {
      await this.#act(random.pick(ACTIONS), random);
      this.done++;
      await sleep(random.below(15));
    }
  }

  async read(process: number, made: Operation, quiet = false): Promise<Operation> {
    return this.#asWell(quiet, () => this.#about('read', process, made, quiet));
  }

  /** Reads a background response's events, which must contain its text without gaps. */
  async replay(process: number, made: Operation, quiet = false): Promise<Operation> {
    return this.#asWell(quiet, () => this.#about('replay', process, made, quiet));
  }

  async continue(process: number, of: Operation, quiet = false): Promise<Operation> {
    return this.#asWell(quiet, () =>
      this.#save(
        this.#operation('continue', process, of.organization, of.n, quiet),
        { tokens: 3, gapMs: 0 },
        { previous_response_id: of.id },
      ),
    );
  }

  /**
   * Performs an operation. Once all faults have been removed (`quiet`), a failed operation is repeated: on a busy
   * machine, an operation may be late occasionally, but not every time.
   */
  async #asWell(quiet: boolean, act: () => Promise<Operation>): Promise<Operation> {
    for (let left = quiet ? QUIET_ATTEMPTS : 1; ; left--) {
      const operation = await act();
      if (left === 1 || operation.status === 200 || operation.status === 404) return operation;
      operation.quiet = false;
      await sleep(500);
    }
  }

  async #act(what: What, random: Random): Promise<void> {
    const [process, organization] = [random.below(COUNT), random.below(ORGANIZATIONS)];
    const recent = this.made.filter(({ round }) => round === this.#round);
    const some = (from: readonly Operation[]): Operation | null => (from.length === 0 ? null : random.pick(from));
    const background = recent.filter((one) => one.what === 'background');
    switch (what) {
      case 'hold':
        return this.#hold(
          this.#operation(what, process, organization),
          { tokens: 100, gapMs: 20 },
          30 + random.below(500),
        );
      case 'ask':
        return this.#ask(this.#operation(what, process, organization));
      case 'store':
        return void (await this.#save(
          this.#operation(what, process, organization),
          { tokens: 1 + random.below(4), gapMs: random.below(3) * 30 },
          {},
        ));
      case 'background':
        return void (await this.#save(
          this.#operation(what, process, organization),
          { tokens: 4 + random.below(40), gapMs: 25 },
          { background: true },
        ));
      case 'continue': {
        const of = some(recent.filter((one) => one.what !== 'background'));
        return of === null ? undefined : void (await this.continue(process, of));
      }
      case 'read':
      case 'remove':
      case 'cancel':
      case 'replay':
      case 'foreign': {
        const of = some(what === 'read' || what === 'remove' || what === 'foreign' ? recent : background);
        return of === null ? undefined : void (await this.#about(what, process, of, false, random.pick(FOREIGN)));
      }
    }
  }

  /** Opens a stream and disconnects after `forMs`. */
  async #hold(operation: Operation, asked: Asked, forMs: number): Promise<void> {
    this.asked.set(operation.n, asked);
    const leave = new AbortController();
    const late = setTimeout(() => leave.abort(), PATIENCE_MS);
    try {
      const response = await fetch(`${this.service.url(operation.process)}/v1/chat/completions`, {
        method: 'POST',
        headers: this.#headers(operation.organization),
        signal: leave.signal,
        body: JSON.stringify({
          model: MODELS.places,
          stream: true,
          messages: [{ role: 'user', content: promptOf(operation.n, asked.tokens, asked.gapMs) }],
        }),
      });
      operation.status = response.status;
      if (response.status !== 200) operation.code = ((await response.json()) as Body).error?.code ?? null;
      else setTimeout(() => leave.abort(), forMs);
      await response.text();
    } catch {
      // the client disconnected, or the connection was lost
    } finally {
      clearTimeout(late);
      operation.ended = performance.now();
    }
  }

  async #ask(operation: Operation): Promise<void> {
    this.asked.set(operation.n, { tokens: 2, gapMs: 0 });
    const { status } = await this.#send(operation, 'POST', '/v1/chat/completions', {
      model: MODELS.requests,
      messages: [{ role: 'user', content: promptOf(operation.n, 2, 0) }],
    });
    operation.seen = status === 200;
  }

  async #save(operation: Operation, asked: Asked, more: object): Promise<Operation> {
    this.asked.set(operation.n, asked);
    const prompt = promptOf(operation.n, asked.tokens, asked.gapMs);
    const { status, body } = await this.#send(operation, 'POST', '/v1/responses', {
      model: MODELS.kept,
      input: prompt,
      store: true,
      ...more,
    });
    if (status !== 200) return operation;
    operation.id = body.id ?? null;
    operation.state = body.status ?? null;
    operation.text = textOf(body);
    if (operation.what !== 'background' && (operation.state !== 'completed' || operation.text !== answerTo(prompt)))
      operation.odd = `is ${operation.state ?? ''} with "${operation.text}"`;
    this.made.push(operation);
    return operation;
  }

  async #about(
    what: 'read' | 'remove' | 'cancel' | 'replay' | 'foreign',
    process: number,
    of: Operation,
    quiet: boolean,
    how: (typeof FOREIGN)[number] = 'read',
  ): Promise<Operation> {
    const organization = what === 'foreign' ? (of.organization + 1) % ORGANIZATIONS : of.organization;
    const operation = this.#operation(what, process, organization, of.n, quiet);
    const path = `/v1/responses/${of.id ?? ''}`;
    if (what === 'replay') return this.#follow(operation, of, path);
    if (what === 'foreign' && how === 'continue') {
      await this.#send(operation, 'POST', '/v1/responses', {
        model: MODELS.kept,
        input: 'x',
        previous_response_id: of.id,
      });
      return operation;
    }
    const verb = what === 'foreign' ? how : what;
    const [method, at] =
      verb === 'remove'
        ? ['DELETE', path]
        : verb === 'cancel'
          ? ['POST', `${path}/cancel`]
          : ['GET', verb === 'items' ? `${path}/input_items` : path];
    const { status, body } = await this.#send(operation, method as string, at as string);
    if (status === 200 && what !== 'foreign' && what !== 'remove')
      [operation.state, operation.text] = [body.status ?? null, textOf(body)];
    return operation;
  }

  async #follow(operation: Operation, of: Operation, path: string): Promise<Operation> {
    const late = AbortSignal.timeout(PATIENCE_MS);
    try {
      const response = await fetch(`${this.service.url(operation.process)}${path}?stream=true`, {
        headers: this.#headers(operation.organization),
        signal: late,
      });
      operation.status = response.status;
      if (response.status !== 200) {
        operation.code = ((await response.json()) as Body).error?.code ?? null;
        return operation;
      }
      const all = (await events(response))
        .filter(({ data }) => data !== '[DONE]')
        .map(({ data }) => JSON.parse(data) as { type: string; sequence_number: number; delta?: string });
      const text = all
        .filter(({ type }) => type === 'response.output_text.delta')
        .map(({ delta = '' }) => delta)
        .join('');
      const asked = this.asked.get(of.n) as Asked;
      const gap = all.findIndex(({ sequence_number: number }, at) => number !== at);
      // A subscriber to a deleted response receives only its terminal event.
      const isRemoved = this.history.some(
        (one) => one.kind === 'operation' && one.what === 'remove' && one.of === of.n,
      );
      if (gap >= 0 && isRemoved) operation.text = text;
      else if (gap >= 0) operation.odd = `event ${gap} of ${of.n} has number ${all[gap]?.sequence_number ?? ''}`;
      else if (!answerTo(promptOf(of.n, asked.tokens, asked.gapMs)).startsWith(text))
        operation.odd = `the events of ${of.n} say "${text}"`;
      operation.text = text;
      operation.state = /^response\.(completed|failed|cancelled|incomplete)$/.exec(all.at(-1)?.type ?? '')?.[1] ?? null;
    } catch {
      operation.status = null;
    } finally {
      operation.ended = performance.now();
    }
    return operation;
  }

  #operation(what: What, process: number, organization: number, of: number | null = null, quiet = false): Operation {
    const operation: Operation = {
      kind: 'operation',
      n: ++this.#n,
      round: this.#round,
      what,
      process,
      life: this.service.lifeOf(process),
      organization,
      key: `${this.#round}.${organization}`,
      of,
      began: performance.now(),
      ended: Infinity,
      status: null,
      code: null,
      id: null,
      state: null,
      text: null,
      seen: false,
      quiet,
      odd: null,
    };
    this.history.push(operation);
    return operation;
  }

  #headers(organization: number): Record<string, string> {
    return { authorization: `Bearer ${this.#keys[organization] ?? ''}`, 'content-type': 'application/json' };
  }

  async #send(operation: Operation, method: string, path: string, body?: object): Promise<Told> {
    try {
      const response = await fetch(`${this.service.url(operation.process)}${path}`, {
        method,
        headers: this.#headers(operation.organization),
        signal: AbortSignal.timeout(PATIENCE_MS),
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const said = (await response.json()) as Body;
      operation.status = response.status;
      operation.code = response.status === 200 ? null : (said.error?.code ?? null);
      return { status: operation.status, code: operation.code, body: said };
    } catch {
      return { status: null, code: null, body: {} };
    } finally {
      operation.ended = performance.now();
    }
  }
}
