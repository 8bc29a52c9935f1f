// Clients of a server that will be killed. The ledger records everything that the server acknowledged to a client, but
// not a request that is in flight when the connection breaks. Each client has its own random seed.
import { setTimeout as sleep } from 'node:timers/promises';
import type { CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import type { UsagePage } from '../../src/shared/wire/usage.js';
import type { DashboardClient } from '../support/dashboard-client.js';
import { randomFrom, type Random } from '../support/random.js';
import { isTerminal, type KnownResponse, type Ledger, type Resource, type Spent } from './ledger.js';
import { MODEL, type Victim } from './victim.js';

const CLIENTS = 8;
/** Maximum length of a chain, because the context grows with it. */
const DEEPEST = 5;
/** More items than fit in one transaction, so that a response with this many items is saved in several transactions. */
const MANY_ITEMS = 290;

export interface Target {
  victim: Victim;
  url: string;
  secret: string;
  /** A key for an organization that has stored nothing. */
  foreign: string;
  owner: DashboardClient;
  organization: string;
}

/** Runs all clients. Resolves when the server is gone. */
export async function load(target: Target, ledger: Ledger, seed: number): Promise<void> {
  const client = (index: number): Client => new Client(target, ledger, randomFrom(seed * 64 + index));
  await Promise.all([
    ...Array.from({ length: CLIENTS }, (_, index) => client(index).whileThere((one) => one.turn())),
    client(CLIENTS).whileThere((one) => one.key()),
    client(CLIENTS + 1).whileThere((one) => one.usage()),
  ]);
}

export async function usageOf(owner: DashboardClient, organization: string): Promise<Spent> {
  const { data } = await owner.get<UsagePage>(`/organizations/${organization}/usage`);
  return {
    requests: data.reduce((sum, row) => sum + row.requests, 0),
    output: data.reduce((sum, row) => sum + row.output_tokens, 0),
  };
}

class Client {
  readonly #own: KnownResponse[] = [];

  constructor(
    private readonly target: Target,
    private readonly ledger: Ledger,
    private readonly random: Random,
  ) {}

  async whileThere(work: (client: Client) => Promise<void>): Promise<void> {
    const { victim } = this.target;
    while (!victim.ending) {
      try {
        await work(this);
      } catch (error) {
        if (!victim.ending) {
          await sleep(50); // the lost connections are reported before the process's exit
          if (!victim.ending)
            this.ledger.problems.push(
              victim.fell
                ? 'the server exited by itself'
                : `a client: ${String(error)} ${String((error as Error).cause ?? '')}`,
            );
        }
        return;
      }
    }
  }

  async turn(): Promise<void> {
    const draw = this.random.below(10);
    if (draw < 5) await this.#answer();
    else if (draw < 8) await this.#background();
    else await this.#delete();
  }

  async key(): Promise<void> {
    const { owner, organization } = this.target;
    const path = `/organizations/${organization}/api-keys`;
    const { id, secret } = await owner.post<CreatedApiKey>(path, { name: 'a key' });
    const key: Ledger['keys'][number] = { id, secret, revocation: 'none' };
    this.ledger.keys.push(key);
    if (this.random.below(4) > 0) {
      key.revocation = 'asked';
      await owner.delete(`${path}/${id}`);
      key.revocation = 'acknowledged';
    }
    await sleep(this.random.below(40));
  }

  async usage(): Promise<void> {
    this.ledger.told = await usageOf(this.target.owner, this.target.organization);
    await sleep(this.random.below(100));
  }

  async #answer(): Promise<void> {
    const stream = this.random.below(2) === 0;
    const asked = this.#request({ stream });
    const response = await this.#post(asked.body);
    if (response === null) return;
    const final = stream ? await this.#follow(response, null) : ((await response.json()) as Resource);
    if (final !== null) this.#note(asked, final.id, false, final);
  }

  async #background(): Promise<void> {
    const stream = this.random.below(3) === 0;
    const asked = this.#request({ stream, background: true });
    const response = await this.#post(asked.body);
    if (response === null) return;
    if (stream) {
      await this.#follow(response, (id) => this.#note(asked, id, true, null));
      return;
    }
    const known = this.#note(asked, ((await response.json()) as Resource).id, true, null);
    const then = this.random.below(3);
    if (then === 1) {
      for (let looks = 0; looks < 8 && known.final === null; looks++) {
        await sleep(this.random.below(30));
        await this.#look(known, '', 'GET');
      }
    }
    if (then === 2) {
      await sleep(this.random.below(60));
      await this.#look(known, '/cancel', 'POST');
      if (known.final === null && !this.target.victim.ending)
        this.ledger.problems.push(`${known.id} was cancelled, but is still running`);
    }
  }

  async #delete(): Promise<void> {
    const known = this.#own.length === 0 ? null : this.random.pick(this.#own);
    if (known === null || known.deletion !== 'none') return;
    known.deletion = 'asked';
    const response = await this.#send(`/${known.id}`, 'DELETE');
    await response.text();
    if (response.status === 200) known.deletion = 'acknowledged';
    else if (!this.target.victim.ending) this.ledger.problems.push(`deleting ${known.id} returned ${response.status}`);
  }

  #request(more: object): { mark: string; previous: KnownResponse | null; body: object } {
    const { random } = this;
    const mark = `mark-${this.ledger.sent.requests}-${random.below(2 ** 30)}`;
    const usable = this.#own.filter(
      ({ final, deletion, depth }) =>
        deletion === 'none' && depth < DEEPEST && (final?.status === 'completed' || final?.status === 'incomplete'),
    );
    const previous = usable.length > 0 && random.below(2) === 0 ? random.pick(usable) : null;
    const letter = random.pick(['A', 'A', 'H', 'S', 'L']);
    const many = previous === null && random.below(16) === 0;
    const input = many
      ? Array.from({ length: MANY_ITEMS }, (_, index) => ({ role: 'user', content: index === 0 ? mark : 'x' }))
      : `${letter}: ${mark}`;
    const max = letter === 'L' ? 16 + random.below(600) : 200;
    this.ledger.sent.output += max;
    return {
      mark,
      previous,
      body: { model: MODEL, input, max_output_tokens: max, previous_response_id: previous?.id ?? null, ...more },
    };
  }

  #note(
    { mark, previous }: { mark: string; previous: KnownResponse | null },
    id: string,
    background: boolean,
    final: Resource | null,
  ): KnownResponse {
    const known: KnownResponse = {
      id,
      mark,
      previous,
      depth: (previous?.depth ?? 0) + 1,
      background,
      final,
      seen: new Map(),
      deletion: 'none',
    };
    this.ledger.responses.push(known);
    this.#own.push(known);
    return known;
  }

  async #look(known: KnownResponse, path: string, method: string): Promise<void> {
    const response = await this.#send(`/${known.id}${path}`, method);
    const resource = (await response.json()) as Resource;
    if (response.status === 200) known.final = isTerminal(resource.status) ? resource : known.final;
    else if (!this.target.victim.ending)
      this.ledger.problems.push(`${method} ${known.id}${path} returned ${response.status} ${JSON.stringify(resource)}`);
  }

  /**
   * Reads a stream to its end; returns null if the stream breaks off. `begin` is passed for a background response,
   * whose events are recorded as they arrive.
   */
  async #follow(response: Response, begin: ((id: string) => KnownResponse) | null): Promise<Resource | null> {
    let known: KnownResponse | null = null;
    let final: Resource | null = null;
    for await (const { sequence, data, resource } of eventsOf(response)) {
      if (begin !== null && known === null && resource !== null) known = begin(resource.id);
      known?.seen.set(sequence, data);
      if (resource === null || !isTerminal(resource.status)) continue;
      final = resource;
      if (known !== null) known.final = resource;
    }
    return final;
  }

  /** Returns null if the request was refused for an expected reason, such as no free concurrency slot. */
  async #post(body: object): Promise<Response | null> {
    const response = await this.#send('', 'POST', body);
    if (response.status === 200) return response;
    const text = await response.text();
    // A 503 is expected if a request waited too long on a busy machine.
    const refused = response.status === 429 || (response.status === 503 && text.includes('"capacity_exhausted"'));
    if (!refused && !this.target.victim.ending)
      this.ledger.problems.push(`a request returned ${response.status} ${text}`);
    return null;
  }

  #send(path: string, method: string, body?: object): Promise<Response> {
    this.ledger.sent.requests++;
    const { url, secret } = this.target;
    return fetch(`${url}/v1/responses${path}`, {
      method,
      headers: {
        authorization: `Bearer ${secret}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  }
}

export interface SeenEvent {
  sequence: number;
  data: string;
  resource: Resource | null;
}

/** Yields the events that arrived completely. */
export async function* eventsOf(response: Response): AsyncGenerator<SeenEvent> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const part of response.body!) {
    const blocks = (rest + decoder.decode(part as Uint8Array, { stream: true })).split('\n\n');
    rest = blocks.pop() as string;
    for (const block of blocks) {
      const data = block
        .split('\n')
        .find((line) => line.startsWith('data: '))
        ?.slice(6);
      if (data === undefined || data === '[DONE]') continue;
      const event = JSON.parse(data) as { sequence_number: number; response?: Resource };
      yield { sequence: event.sequence_number, data, resource: event.response ?? null };
    }
  }
}
